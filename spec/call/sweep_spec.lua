-- Every function with each of its arguments, and each of its options, replaced by values that are wrong or lie at an end:
-- what it says, or the kind of what it gives. spec/corpus/sweep.txt has a line for each function: its name, and for each
-- place or option a checksum of those texts. TIDE_RECORD=1 writes that file. TIDE_SWEEP=FILE writes the texts themselves:
-- compare those of two builds.
local tide = require "tide"
local D = require "spec.support.device"
local calls = require "spec.support.calls"
local checks = require "spec.support.checks"

-- These print, wait, write files of their own, or change the process.
local aside = {}
for name in ([[help set_printoptions get_printoptions imshow plot progress from_ptr spawn _main init_process_group device_reset _sleep
  set_device set_stream cudart from_handle change_current_allocator set_per_process_memory_fraction preload caching_allocator_alloc
  caching_allocator_delete caching_allocator_enable init set_source_reader record_history set_allocator_settings on_oom
  list_gpu_processes ExternalStream get_stream_from_external set_debug_level set_debug enable_debug_mode explain print wait ready
  StreamContext interpret capture_begin set_peer_access set_timeout set_sync_debug_mode]]):gmatch "%S+" do aside[name] = true end

local function values()
  local freed = tide.ones(2)
  freed:free()
  return {
    { "nil", nil }, { "0", 0 }, { "-1", -1 }, { "3", 3 }, { "-3", -3 }, { "4", 4 }, { "-4", -4 }, { "1.5", 1.5 }, { "nan", 0 / 0 },
    { "inf", 1 / 0 }, { "least", math.mininteger }, { "greatest", math.maxinteger }, { "''", "" }, { "true", true }, { "{}", {} },
    { "{1,1}", { 1, 1 } }, { "{'a'}", { "a" } }, { "{a=1}", { a = 1 } }, { "empty", tide.zeros(0) }, { "scalar", tide.tensor(1) },
    { "int", tide.tensor { 1, 2 } }, { "bool", tide.tensor { true, false } }, { "complex", tide.ones(2, { dtype = "complex64" }) },
    { "four", tide.ones(1, 2, 2, 3) }, { "freed", freed }, { "dtype", tide.float64 }, { "device", tide.device "cpu" },
    { "function", function() end }, { "file", io.stdout },
  }
end

local function kind_of(v)
  if tide.is_tensor(v) and not pcall(function() return v.dtype end) then return "freed" end
  if tide.is_tensor(v) then return tostring(v.dtype):gsub("^tide%.", "") .. "[" .. table.concat(v:size(), ",") .. "]" end
  if type(v) == "table" and not debug.getmetatable(v) then
    local parts = {}
    for i = 1, math.min(#v, 4) do parts[i] = kind_of(v[i]) end
    return "{" .. #v .. " " .. table.concat(parts, " ") .. "}"
  end
  return math.type(v) or type(v)
end

local function text_of(ok, ...)
  if ok then
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = kind_of(parts[i]) end
    return table.concat(parts, " ")
  end
  local e = ...
  if type(e) ~= "string" and e.kind == "LibraryError" then return e.kind end -- which libraries there are is the machine's
  local text = type(e) == "string" and e or e.kind and e.kind .. ": " .. e.message or tostring(e)
  return (text:gsub(" made at [^%s,]+", ""):gsub("/tmp/[%w_]+", "/tmp/file"):gsub("sweep_spec%.lua:[%d:]+", "sweep_spec.lua:"):gsub("0x%x+", "0x"):gsub("%-nan", "nan"))
end

local function checksum(text)
  local a, b = 1, 0
  for i = 1, #text do
    a = (a + text:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return ("%04x%04x"):format(b, a)
end

local function shown(x) return tide.is_tensor(x) and D.show(x:totable()) or "" end

-- The texts of a call: a list of {place, text}.
local function sweep(call, row)
  local out = {}
  local function try(place, what, change)
    local args = call.make()
    local n = change(args, #args) or #args
    local x = call.name:find "_$" and place ~= 1 and args[1]
    local before = x and shown(x)
    local results = table.pack(pcall(call.fn, table.unpack(args, 1, n)))
    local text = text_of(table.unpack(results, 1, results.n))
    if results[1] and type(results[2]) == "userdata" and tostring(results[2]):find "block %(open%)$" then results[2]:close() end
    if x and text:find "^%a+Error: " and shown(x) ~= before then text = text .. " but it was changed: " .. shown(x) end
    out[#out + 1] = { place, ("%s: %s"):format(what, text) }
    checks.count = checks.count + 1
  end
  local list = values()
  local n = #call.make()
  local positional = 0
  for _, p in ipairs(row and row.params or {}) do positional = positional + (p.option and 0 or 1) end
  for place = 1, math.max(n + 1, positional) do
    for _, v in ipairs(list) do
      try(place, v[1], function(args, n)
        args[place] = v[2]
        return math.max(n, place)
      end)
    end
  end
  try("fewer", "none", function() return 0 end)
  try("fewer", "one less", function(_, n) return math.max(n - 1, 0) end)
  try("more", "nil", function(_, n) return n + 1 end)
  for _, p in ipairs(row and row.params or {}) do
    if p.option and p.name ~= "device" and p.name ~= "path" then
      for _, v in ipairs(list) do
        try(p.name, v[1], function(args, n) args[n + 1] = { [p.name] = v[2] } end)
      end
    end
  end
  if row then try("option", "unknown", function(args, n) args[n + 1] = { no_such = 1 } end) end
  return out
end

-- ---- calls of what is no function of tensors: made by their rows ----

local objects = {
  Storage = function() return tide.ones(2, { device = D.dev }):storage() end,
  Generator = function() return tide.Generator(D.dev) end,
  Loader = function() return tide.data.loader({ 1, 2, 3 }) end,
  cmdline = function() return tide.cmdline "title" end,
  LuaKernel = function() return tide.kernel(function(i, x) x[i] = 1 end) end,
  device = function() return tide.device(D.dev) end,
  dtype = function() return tide.float32 end,
  scope = function() return tide.scope() end,
  Stream = D.cuda and tide.cuda.Stream, Event = D.cuda and tide.cuda.Event, CUDAGraph = D.cuda and tide.cuda.CUDAGraph,
  MemPool = D.cuda and tide.cuda.MemPool, Timer = D.cuda and tide.cuda.Timer,
  properties = D.cuda and tide.cuda.get_device_properties,
}
local function ones() return tide.ones(2, 3, { device = D.dev }) end
local function list() return { ones(), ones() } end
local function identity(...) return ... end
local usual = {
  fn = function() return identity end, x = ones, t = ones, y = ones, obj = ones, field = ones, other = ones, out = ones,
  tensors = list, inputs = list, outputs = list, fields = list, tree = list, list = list, states = list,
  device = function() return D.cuda and 0 or "cpu" end, peer = function() return 1 end, path = os.tmpname,
  devices = function() return { 0, 1 } end, msg = function() return "text" end, sizes = function() return { 4 } end,
  state = function() return D.cuda and tide.cuda.get_rng_state() or tide.get_rng_state() end, mode = function() return "default" end,
  stream = D.cuda and tide.cuda.Stream, s = D.cuda and tide.cuda.Stream, streams = D.cuda and function() return { tide.cuda.Stream() } end,
  ev = D.cuda and tide.cuda.Event, pool = D.cuda and tide.cuda.MemPool, coords = function() return { 0 } end,
  dataset = function() return { 1, 2, 3 } end,
}

local function row_calls(prefix)
  local out, seen = {}, {}
  for _, row in ipairs(tide._rows()) do
    local space = row.path:match "^tide%.(.*)"
    local full = row.path .. (space and "." or ":") .. row.name
    local fn, receiver
    if space and row.callable and row.path:find(prefix) then
      fn = tide
      for name in space:gmatch "[^.]+" do fn = fn[name] end
      fn = fn[row.name]
    elseif row.callable and objects[row.path] and not space then
      receiver = objects[row.path]
      fn = receiver()[row.name]
    end
    if fn and row.params and not seen[full] then
      seen[full] = true
      out[#out + 1] = { name = full, fn = fn, row = row, make = function()
        local args = {}
        for i, p in ipairs(row.params) do
          if p.option or p.optional or p.name == "..." then break end
          if i == 1 and receiver then
            args[i] = receiver()
          else
            local make = usual[p.name]
            args[i] = make and make() or not make and 1 or nil
          end
        end
        return args
      end }
    end
  end
  return out
end

local function all_calls()
  local list = D.cuda and {} or calls.all()
  for _, name in ipairs(D.cuda and {} or { "fft", "linalg", "special" }) do
    for _, call in ipairs(calls.of(tide[name], "tide." .. name .. ".")) do list[#list + 1] = call end
  end
  local others = D.cuda and { "^tide%.cuda", "^tide%.parallel" } or { "^tide%.random", "^tide%.distributed", "^tide%.atomic", "^tide%.data", "^tide%.kernel", "^tide%.cpu" }
  for _, prefix in ipairs(others) do
    for _, call in ipairs(row_calls(prefix)) do
      list[#list + 1] = not list[call.name] and call or nil
      list[call.name] = true
    end
  end
  return list
end

describe("every function with wrong arguments", function()
  D.watch(before_each, after_each)

  it("says what it said", function()
    if D.cuda and (not D.simulated or D.devices ~= 3) or D.tsan or D.asan or not D.compiler then return pending "needs other devices, or a compiler" end
    if not D.cuda and tide.cuda.is_available() then return pending "needs a machine without a GPU" end
    local path = D.cuda and "spec/corpus/sweep_device.txt" or "spec/corpus/sweep.txt"
    local rows, lines, wrong, expected = {}, {}, {}, {}
    for _, row in ipairs(tide._rows()) do rows[(row.path == "Tensor" and "x:" or row.path .. ".") .. row.name] = row end
    local record = os.getenv "TIDE_RECORD"
    for line in record and function() end or io.lines(path) do expected[line:match "^%S+"] = line end
    local texts = os.getenv "TIDE_SWEEP" and assert(io.open(os.getenv "TIDE_SWEEP", "w"))
    if warn then warn "@off" end -- of old names
    for _, call in ipairs(all_calls()) do
      if not aside[call.name:match "[%w_]+$"] then
        local places, of = {}, {}
        if os.getenv "TIDE_SWEEP" then io.stderr:write(call.name, "\n") end
        for _, entry in ipairs(sweep(call, call.row or rows[call.name])) do
          local place, text = entry[1], entry[2]
          if texts then texts:write(call.name, " ", place, " ", text, "\n") end
          if not of[place] then
            of[place] = {}
            places[#places + 1] = place
          end
          table.insert(of[place], text)
        end
        local line = { call.name }
        for _, place in ipairs(places) do
          local sum = place .. "=" .. checksum(table.concat(of[place], "\n"))
          line[#line + 1] = sum
          if not record and not (expected[call.name] .. " "):find(" " .. sum .. " ", 1, true) then
            wrong[#wrong + 1] = ("%s, argument %s gives other texts:\n  %s"):format(call.name, place, table.concat(of[place], "\n  "))
          end
        end
        lines[#lines + 1] = table.concat(line, " ")
      end
    end
    if warn then warn "@on" end
    if texts then texts:close() end
    if record then
      local file <close> = assert(io.open(path, "w"))
      file:write(table.concat(lines, "\n"), "\n")
    else
      assert.are.equal("", table.concat(wrong, "\n"))
    end
  end)
end)
