-- misuse.lua: writes the calls that spec/c/misuse_test.c makes: each public function with every kind of argument that a
-- host should not give. All of it is read from the headers, so that a new function is tested without a word here.
-- usage: tide misuse.lua OUT HEADER...
--        tide misuse.lua --lua OUT TIDE_LUA_H HEADER...      the functions of tide_lua.h alone
--
-- It writes, as C: one struct row for each struct with the kinds and places of its fields, one caller for each function,
-- and one row for each function with its parameters: name, kind, the struct row or element size.

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- Functions that take no argument, or whose misuse cannot be an error, and why.
local left_out = {
  tide_shutdown = "takes nothing",
  tide_sim_mem_free = "frees an address",
  tide_lua_protected = "is behind others",
  tide_lua_pushing_tensor = "is behind another one",
  tide_lua_setting_tensor = "is behind another one",
  tide_lua_error_plain = "is behind tide_lua_error",
  tide_process_sleep = "sleeps as long as it is asked to",
  tide_stream_sleep = "keeps a device busy as long as it is asked to",
  tide_allocator_open = "opens a library, which stays",
}

-- Arguments that may be NULL, or any number, by what the headers say: of every function, or of one.
local optional = {}
for name in ([[
  into options release user stride generator streams
  tide_init.config tide_memory_history.config tide_current_new.inherit tide_current_bind.current tide_current_set_pool.pool
  tide_current_set_allocation_scope.scope tide_allocation_scope_new.outer tide_current_override.stream tide_defer.drop
  tide_defer.where tide_preload.loaded tide_preload.all tide_sim_fault.faults tide_fft.n tide_fft.what tide_fft.dims
  tide_sort.values tide_sort.indices tide_topk.values tide_topk.indices tide_kthvalue.values tide_kthvalue.indices
  tide_median.values tide_median.indices tide_searchsorted.sorter tide_linalg_det.logarithm tide_linalg_eig.v
  tide_linalg_eigh.v tide_linalg_qr.q tide_linalg_svd.u tide_linalg_svd.vh tide_linalg_solve.b tide_pad.value
  tide_tensor_to_dlpack.consumer tide_tensor_to_dlpack_unversioned.consumer tide_from_dlpack.producer
  tide_from_dlpack_unversioned.producer tide_allocator_take.stream tide_bincount.weights tide_current_override.device
  tide_device_processes.list tide_mempool_new_from.source tide_roll.dims
  tide_lua_set_global_tensor.tensor tide_lua_sethook.hook tide_lua_readback.L tide_comm_scatter.chunk_sizes tide_error_set.message tide_quota_spend.n tide_fuse_gather.file tide_fuse_gather.line tide_conv.bias tide_conv_transpose.bias tide_max_pool.indices
]]):gmatch "%S+" do optional[name] = true end

-- A huge count of a list whose length nothing else bounds reads behind it.
local unbounded = {["tide_process_stop.n"] = "LENGTH", ["tide_lua_reload.size"] = "SHORT"}

local plain, structs, enums, opaque, callbacks, functions = {}, {}, {}, {}, {}, {}
callbacks.lua_CFunction, callbacks.lua_Hook = true, true
for name in ("bool char int int64_t uint64_t uint32_t size_t double ptrdiff_t uint16_t unsigned"):gmatch "%S+" do plain[name] = true end

local of_lua = arg[1] == "--lua" and table.remove(arg, 1)

local function words(text) return (text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")) end

local function split(text)
  local list, depth, from = {}, 0, 1
  for at, c in text:gmatch "()([(),])" do
    if c == "(" then
      depth = depth + 1
    elseif c == ")" then
      depth = depth - 1
    elseif depth == 0 then
      list[#list + 1] = words(text:sub(from, at - 1))
      from = at + 1
    end
  end
  list[#list + 1] = words(text:sub(from))
  return list
end

local function note(result, name, parameters, pointer)
  functions[#functions + 1] = {name = name, result = words(result) .. (pointer and " *" or ""), list = split(words(parameters:sub(2, -2)))}
end

for i = 2, #arg do
  local text = read(arg[i]):gsub("/%*.-%*/", " "):gsub("\\\n", " ")
  local bare = text:gsub("\n[ \t]*#[^\n]*", " "):gsub("^#[^\n]*", " ")
  for name, body in bare:gmatch "typedef struct ([%w_]+) (%b{})" do structs[name] = body:sub(2, -2) end
  for name in bare:gmatch "typedef struct ([%w_]+) [%w_]+;" do opaque[name] = true end
  for name in bare:gmatch "struct ([%w_]+);" do opaque[name] = true end
  for name in bare:gmatch "typedef enum ([%w_]+)" do enums[name] = true end
  for name in bare:gmatch "typedef [%w_ %*]-%(%*([%w_]+)%)%(" do callbacks[name] = true end
  for result, name, parameters in bare:gmatch "TIDE_API%s+([%w_ %*]-)%s*%*?([%w_]+)(%b())%s*;" do
    local pointer = bare:find("%*%s*" .. name .. "%s*%(") ~= nil
    if not of_lua then note(result, name, parameters, pointer) end
  end
end

if of_lua then
  local text = read(arg[2]):gsub("/%*.-%*/", " "):gsub("\\\n", " ")
  for result, name, parameters in text:gmatch "\nstatic inline ([%w_ %*]-)%s*%*?([%w_]+)(%b())%s*{" do
    note(result, name, parameters, text:find("%*%s*" .. name .. "%s*%(") ~= nil)
  end
  -- One macro for each kind of object.
  for word, macro in pairs {TIDE_LUA_TO = "to", TIDE_LUA_PUSH = "push", TIDE_LUA_TRY_PUSH = "try_push"} do
    for noun in text:gmatch("\n" .. word .. "%((%l+)%)") do
      local object = ("tide_%s *%s"):format(noun, noun)
      note(macro == "to" and "tide_" .. noun or macro == "push" and "int" or "tide_status", ("tide_lua_%s_%s"):format(macro, noun),
        ("(lua_State *L, %s)"):format(macro == "to" and "int index" or object), macro == "to")
    end
  end
end

local counts = {}
for name in ("n ndim ndims count rank ranks outputs scalars outputs_n numbers_n n_devices most args"):gmatch "%S+" do counts[name] = true end
local devices = {device = true, peer = true, destination = true, root = true}

local function kind_of(declaration)
  local callback = declaration:match "%(%*([%w_]+)%)"
  if callback then return "FUNCTION", callback, "void *" end
  local type, name, array = declaration:match "^(.-)([%w_]+)%s*(%[[^%]]*%])$"
  if not type then type, name = declaration:match "^(.-)([%w_]+)$" end
  type = words(type)
  if array then type = type .. " *" end
  local _, stars = type:gsub("%*", "")
  local base = words(type:gsub("%*", " "):gsub("%f[%w_]const%f[^%w_]", " "):gsub("%f[%w_]struct%f[^%w_]", " "))
  if stars == 0 then
    if callbacks[base] then return "FUNCTION", name, type end
    if enums[base] then return "ENUM", name, type, base end
    if base == "double" then return "DOUBLE", name, type end
    if base == "bool" then return "BOOL", name, type end
    if base == "tide_scalar" then return "SCALAR", name, type end
    if base == "int" and devices[name] then return "DEVICE", name, type end
    if of_lua and name == "index" then return "INDEX", name, type end
    if (base == "int" or base == "int64_t") and counts[name] then return "COUNT", name, type end
    if base == "size_t" then return name == "length" and "SHORT" or "BYTES", name, type end
    assert(plain[base], declaration)
    return "NUMBER", name, type
  end
  local written = not type:find "^const"
  if stars == 1 then
    if base == "char" then return written and "PLACE" or "TEXT", name, type end
    if base == "void" then return "MEMORY", name, type end
    if base == "FILE" then return "FILE_", name, type end
    if callbacks[base] then return "PLACE", name, type end
    if plain[base] or enums[base] then return written and "PLACE" or (base == "int64_t" and "SIZES" or base == "int" and "INTS" or "MEMORY"), name, type end
    if base == "tide_memory_snapshot" or base == "tide_lua_api" then return "OBJECT", name, type, base end -- made by tide alone
    if structs[base] then
      if base == "tide_scalar" and not written then return "MEMORY", name, type end
      return written and "PLACE" or "STRUCT", name, type, base
    end
    return "OBJECT", name, type, base
  end
  if type:find "%*%s*const%s*%*$" and not (structs[base] and stars == 1) then
    if base == "char" then return "TEXTS", name, type end
    return "LIST", name, type, base
  end
  return "PLACE", name, type
end

local out = assert(io.open(arg[1], "w"))
out:write "/* Written by misuse.lua from the public headers. */\n"
local used = {}
local rows, callers = {}, {}
table.sort(functions, function(a, b) return a.name < b.name end)
for i, f in ipairs(functions) do
  if not left_out[f.name] and f.list[1] ~= "void" and f.list[1] ~= "" then
    local given, parameters = {}, {}
    for k, declaration in ipairs(f.list) do
      local kind, name, type, base = kind_of(declaration)
    kind = unbounded[f.name .. "." .. name] or kind
      local v = ("v[%d]"):format(k - 1)
      local how = kind == "DOUBLE" and v .. ".d" or kind == "BOOL" and v .. ".i != 0" or kind == "SCALAR" and ("scalar_of(%s.i)"):format(v)
        or (kind == "FUNCTION" and ("(void *)%s.p"):format(v)) or ((kind == "ENUM" or kind == "DEVICE" or kind == "COUNT" or kind == "NUMBER" or kind == "BYTES" or kind == "LENGTH" or kind == "SHORT" or kind == "INDEX") and ("(%s)%s.i"):format(type, v))
        or v .. ".p"
      given[k] = how
      local extra = "NULL"
      local may = optional[name] or optional[f.name .. "." .. name] or f.name:match "_retain$" or f.name:match "_release$" or f.name:match "_free$"
      if kind == "STRUCT" then
        used[base] = true
        extra = ("&struct_%s"):format(base)
      end
      parameters[k] = ('{"%s", %s, "%s", %s, %s}'):format(name, kind, base or "", extra, tostring(may ~= nil))
    end
    local call = ("%s(%s)"):format(f.name, table.concat(given, ", "))
    local status = f.result == "tide_status"
    callers[#callers + 1] = status and ("static int call_%d(value *v) { return (int)%s; }\n"):format(i, call)
      or ("static int call_%d(value *v) { return (void)v, (void)%s, -1; }\n"):format(i, call)
    rows[#rows + 1] = ('  {"%s", call_%d, %s, %d, {%s}},\n'):format(f.name, i, tostring(status), #f.list, table.concat(parameters, ", "))
  end
end

local function fields_of(name)
  local list = {}
  for declaration in structs[name]:gmatch "([^;]+);" do
    declaration = words(declaration)
    local callback = declaration:match "%(%*([%w_]+)%)%("
    if callback then
      list[#list + 1] = {callback, "POINTER"}
    elseif declaration ~= "" then
      local first = true
      for _, one in ipairs(split(declaration)) do
        if first then declaration = one end
        local field = one:match "([%w_]+)%s*%b[]" or one:match "([%w_]+)$"
        local pointer = one:find "%*" or callbacks[declaration:match "^[%w_]+"]
        local type = declaration:match "^const ([%w_]+)" or declaration:match "^([%w_]+)"
        local nested = structs[type] and not pointer
        if not nested then list[#list + 1] = {field, pointer and "POINTER" or type == "double" and "REAL" or type == "bool" and "TRUTH"
            or enums[type] and "ENUM" or (counts[field] or field:match "_count$") and "COUNT" or field == "struct_size" and "SIZE" or "INTEGER"} end
        first = false
      end
    end
  end
  return list
end

local names = {}
for name in pairs(used) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  out:write(("static const field fields_%s[] = {\n"):format(name))
  for _, field in ipairs(fields_of(name)) do
    out:write(('  {"%s", FIELD_%s, offsetof(%s, %s), sizeof(((%s *)0)->%s)},\n'):format(field[1], field[2], name, field[1], name, field[1]))
  end
  out:write(("};\nstatic const layout struct_%s = {\"%s\", sizeof(%s), sizeof fields_%s / sizeof *fields_%s, fields_%s};\n"):format(name, name, name, name, name, name))
end
out:write(table.concat(callers))
out:write("static const row rows[] = {\n", table.concat(rows), "};\n")
out:close()
