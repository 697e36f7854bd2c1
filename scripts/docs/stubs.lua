-- The stubs for the Lua language server, of the table of functions: tide.lua, which `require "tide"` finds, and a file for
-- each noun in tide/. Every module and class is a `---@class`, which the files add to.
-- Returns the texts by file name.

-- ---- types ----

local result_types = {
  Tensor = "tide.Tensor", boolean = "boolean", integer = "integer", number = "number", string = "string", table = "table", bytes = "integer",
  percent = "integer", ms = "number", text = "string", Stream = "tide.cuda.Stream", Event = "tide.cuda.Event", ev = "tide.cuda.Event",
  Generator = "tide.Generator", Storage = "tide.Storage", storage = "tide.Storage", device = "tide.device", dtype = "tide.dtype",
  CUDAGraph = "tide.cuda.CUDAGraph", major = "integer", minor = "integer", patch = "integer", free = "integer", total = "integer",
  Shape = "integer[]", timer = "tide.Timer", parser = "tide.cmdline", depth = "integer", loader = "tide.Loader", pool = "tide.MemPool",
  x = "tide.Tensor", c = "tide.Tensor", g = "tide.Generator", int64 = "tide.Tensor", bool = "tide.Tensor",
}
-- Of functions whose signature names the result by a variable.
local results_of = { ["tide.kernel"] = "tide.LuaKernel", ["tide.fuse"] = "tide.Fused", ["LuaKernel.on"] = "tide.BoundLuaKernel" }
local reserved = { ["end"] = "end_", ["repeat"] = "repeat_", ["function"] = "function_" }

local class_names = {
  Generator = "tide.Generator", Stream = "tide.cuda.Stream", Event = "tide.cuda.Event", CUDAGraph = "tide.cuda.CUDAGraph",
  Kernel = "tide.cuda.Kernel", Tensor = "tide.Tensor",
}
local function class_of(path) return path:find "^tide" and path or class_names[path] or "tide." .. path end

local function result_type(row)
  local known = results_of[row.path .. "." .. row.name]
  if known then return known end
  local out = {}
  for part in (row.results:gsub("%b{}", function(list) return list:find "^{Tensor" and "TENSORS" or "table" end) .. ","):gmatch "%s*(.-)%s*," do
    local word = part:match "^%w+" or ""
    local kind = word == "TENSORS" and "tide.Tensor[]" or result_types[word] or "any"
    if part:find " or nil$" or part:find " or nothing$" then kind = kind .. "|nil" end
    if part ~= "" then out[#out + 1] = part == "..." and (out[#out] or "any") or kind end
  end
  return table.concat(out, ", ")
end

local function param_type(p) return p.choices and '"' .. table.concat(p.choices, '"|"') .. '"' or p.type end

-- ---- functions ----

-- The parameters: positional ones {name, type, optional}, the type of the options or nil, the type of `...` or nil.
local function params_of(row, is_method)
  local list, options, rest = {}, {}, row.open and "any" or nil
  for i, p in ipairs(row.params or {}) do
    if is_method and i == 1 then -- self
    elseif p.option then options[#options + 1] = ("%s?: %s"):format(p.name, param_type(p))
    elseif p.rest then rest = param_type(p)
    else list[#list + 1] = { name = reserved[p.name] or p.name, type = param_type(p), optional = p.optional } end
  end
  return list, #options > 0 and "{" .. table.concat(options, ", ") .. "}" or nil, rest
end

-- As "fun(x: tide.Tensor, options?: {...}): tide.Tensor". `self`: the type of the receiver, or nil.
local function fun_type(self, list, options, rest, result)
  local out = {}
  if self then out[1] = "self: " .. self end
  for _, p in ipairs(list) do out[#out + 1] = p.name .. (p.optional and "?" or "") .. ": " .. p.type end
  if options and not rest then out[#out + 1] = "options?: " .. options end
  if rest then out[#out + 1] = "...: " .. rest .. (options and "|" .. options or "") end
  return "fun(" .. table.concat(out, ", ") .. ")" .. (result ~= "" and ": " .. result or "")
end

-- Options may follow the last argument that is given: an overload without the optional ones, where there are any.
local function overload_of(self, list, options, rest, result)
  local required = {}
  for _, p in ipairs(list) do
    if not p.optional then required[#required + 1] = p end
  end
  if not options or rest or #required == #list then return nil end
  local named = {}
  for _, p in ipairs(list) do
    if p.optional then named[#named + 1] = ("%s?: %s"):format(p.name, p.type) end
  end
  return fun_type(self, required, "{" .. table.concat(named, ", ") .. ", " .. options:sub(2), nil, result):gsub("options%?", "options")
end

local function doc_lines(row)
  local out = {}
  for line in row.text:gmatch "[^\n]+" do out[#out + 1] = "---" .. line end
  return out
end

local function function_stub(row, variable, is_method)
  local list, options, rest = params_of(row, is_method)
  local out, names, result = doc_lines(row), {}, result_type(row)
  for _, p in ipairs(list) do
    out[#out + 1] = ("---@param %s%s %s"):format(p.name, p.optional and "?" or "", p.type)
    names[#names + 1] = p.name
  end
  if options and not rest then
    out[#out + 1], names[#names + 1] = "---@param options? " .. options, "options"
  elseif rest then
    out[#out + 1], names[#names + 1] = "---@param ... " .. rest .. (options and "|" .. options or ""), "..."
  end
  if result ~= "" then out[#out + 1] = "---@return " .. result end
  local overload = overload_of(is_method and class_of(row.path), list, options, rest, result)
  if overload then out[#out + 1] = "---@overload " .. overload end
  out[#out + 1] = ("function %s%s%s(%s) end\n"):format(variable, is_method and ":" or ".", row.name, table.concat(names, ", "))
  return table.concat(out, "\n")
end

-- ---- files ----

-- The operators of tensors; comparisons have no annotation. A number on the left gives a tensor, too.
local operators = { "add", "sub", "mul", "div", "mod", "pow", "idiv", "band", "bor", "bxor", "shl", "shr" }
local function tensor_operators()
  local out = {}
  for _, name in ipairs(operators) do out[#out + 1] = ("---@operator %s(tide.Tensor|number): tide.Tensor"):format(name) end
  out[#out + 1] = "---@operator unm: tide.Tensor\n---@operator bnot: tide.Tensor\n---@operator len: integer\n---@field [integer|table|tide.Tensor] tide.Tensor"
  return table.concat(out, "\n")
end

local callable = { -- objects that are called: what their calls take and give
  ["tide.LuaKernel"] = "fun(grid: integer|integer[], ...: any): ...", ["tide.BoundLuaKernel"] = "fun(...: any): ...",
  ["tide.Fused"] = "fun(...: any): ...", ["tide.cuda.Kernel"] = "fun(...: any)", ["tide.Loader"] = "fun(): any",
}

local head = "---@meta %s\n-- Written by scripts/docs/stubs.lua.\n"

return function(rows)
  local has_members, seen = {}, {}
  for _, row in ipairs(rows) do
    if row.path:find "^tide" then
      local path = row.path
      while path do
        has_members[path], path = true, path:match "^(.*)%."
      end
    end
  end
  local files, order, class_head, classes = {}, {}, {}, {}
  local function variable_of(path) return path == "tide" and "tide" or (path:gsub("^tide%.", ""):gsub("%.", "_")) end
  local function class_in(file, path)
    local own = file.classes[path]
    if not own then
      own = { fields = {}, functions = {} }
      file.classes[path] = own
      file.order[#file.order + 1] = path
    end
    if not classes[path] then classes[path], classes[#classes + 1] = true, path end
    return own
  end
  for _, row in ipairs(rows) do
    local key = row.path .. "." .. row.name
    local is_module = row.path:find "^tide" ~= nil
    local is_known = seen[key] or not row.callable and has_members[key] -- a module's own row comes from the values
    if row.name:sub(1, 1) ~= "_" and row.path ~= "class" and not is_known then
      seen[key] = true
      local noun = row.noun or row.path:find "^tide%.errors" and "error" or row.path
      local file = files[noun]
      if not file then
        file = { classes = {}, order = {} }
        files[noun], order[#order + 1] = file, noun
      end
      local own = class_in(file, row.path)
      if row.callable and row.params and is_module and has_members[key] then -- a function with fields, or a class
        local list, options, rest = params_of(row, false)
        class_head[key] = ("---@overload %s\n"):format(fun_type(nil, list, options, rest, result_type(row)))
      elseif row.callable and row.params then
        own.functions[#own.functions + 1] = function_stub(row, variable_of(row.path), not is_module)
      else
        own.fields[#own.fields + 1] = ("---@field %s %s"):format(row.name, result_type(row))
      end
    end
  end
  local texts, names = {}, {}
  -- The file of require: every module and class, and what the operators and calls of objects give.
  for path in pairs(has_members) do
    if not classes[path] then classes[path], classes[#classes + 1] = true, path end
  end
  table.sort(classes)
  for _, path in ipairs(classes) do
    local class = class_of(path)
    local out = { "---@class " .. class }
    if class == "tide.Tensor" then out[#out + 1] = tensor_operators() end
    if callable[class] then out[#out + 1] = "---@overload " .. callable[class] end
    if class_head[path] then out[#out + 1] = class_head[path]:sub(1, -2) end
    for _, child in ipairs(classes) do
      if child:match "^(.*)%.[^.]*$" == path then out[#out + 1] = ("---@field %s %s"):format(child:match "[^.]*$", class_of(child)) end
    end
    if path == "tide" then
      out[#out + 1] = "---@field Tensor tide.Tensor\nlocal tide = {}\n\n---@type tide\n_G.tide = tide"
    end
    names[#names + 1] = table.concat(out, "\n")
  end
  texts["tide.lua"] = head:format "tide" .. "\n" .. table.concat(names, "\n\n") .. "\n\nreturn tide\n"
  for _, noun in ipairs(order) do
    local out = { head:format "_" }
    for _, path in ipairs(files[noun].order) do
      local own = files[noun].classes[path]
      out[#out + 1] = ("---@class %s\n%slocal %s = {}\n"):format(class_of(path), own.fields[1] and table.concat(own.fields, "\n") .. "\n" or "", variable_of(path))
      for _, text in ipairs(own.functions) do out[#out + 1] = text end
    end
    texts["tide/" .. noun .. ".lua"] = table.concat(out, "\n")
  end
  return texts
end
