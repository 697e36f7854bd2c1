-- Arguments with which the public functions work, found by trying: for specs that walk all of them. A call is
-- {name =, fn =, make =}, where make() gives fresh arguments each time; the same ones, as the generators are seeded.
local tide = require "tide"

local M = {}

local skipped = { -- these end something, start something or wait for somebody
  device_reset = true, _main = true, spawn = true, init_process_group = true, _sleep = true, ipc_handle = true,
  ipc_collect = true, cudart = true, caching_allocator_alloc = true, caching_allocator_delete = true, from_ptr = true,
  change_current_allocator = true, set_per_process_memory_fraction = true, is_tensor = true, seed = true,
  scope = true, device_scope = true, set_num_threads = true, cmdline = true, warn = true, note = true,
  use_deterministic_algorithms = true, set_flush_denormal = true, set_default_device = true, set_default_dtype = true, -- change the process
}

-- Every call makes its own values, on the device that is wanted.
local function values(device)
  local o = device and { device = device } or nil
  local function float(...)
    local n = 1
    for _, s in ipairs { ... } do n = n * s end
    return tide.arange(n, { dtype = tide.float32, device = device }):add_(1):div_(n + 1):reshape(...)
  end
  return {
    M = function() return float(2, 3) end, N = function() return float(3, 2) end, S = function() return float(3, 3) end,
    V = function() return float(3) end, W = function() return float(2) end, B3 = function() return float(2, 2, 2) end,
    Z = function() return float(1):reshape {} end,
    I = function() return tide.tensor({ 2, 1 }, { dtype = "int64", device = device }) end,
    J = function() return tide.tensor({ { 1, 2, 1 }, { 2, 1, 2 } }, { dtype = "int64", device = device }) end,
    K = function() return tide.tensor({ 3, 1, 2 }, { dtype = "int64", device = device }) end,
    D = function() return tide.tensor({ { true, false, true }, { false, true, true } }, o) end,
    C = function() return tide.complex(float(2, 3), float(2, 3)) end,
    R = function() return float(3, 2) end,
    F = function() return function(a) return a end end,
    L = function() return { float(2, 3), float(2, 3) } end,
    L1 = function() return { float(3), float(3) } end,
    G = function() return tide.Generator(device or "cpu"):manual_seed(3) end,
    ST = function() return tide.get_rng_state() end,
    FN = function() return os.tmpname() end,
  }
end

-- Names of values above, or what is given as it is.
local receivers = { "M", "S", "V", "Z", "J", "I", "D", "C", "B3" }
local rest = {
  {}, { 1 }, { 2 }, { "M" }, { "N" }, { "V" }, { "W" }, { "S" }, { "D" }, { "C" }, { 1, 2 }, { 1, 1 }, { 1, 1, 1 },
  { 1, 1, 2 }, { 2, 1, 2 }, { 2, 3 }, { 3, 2 }, { 1, "I" }, { 1, "J" }, { 2, "J" }, { 1, "J", "M" }, { 1, "I", "M" },
  { 1, "J", 2.5 }, { 1, "I", 2.5 }, { "I" }, { "J" }, { "K" }, { "D", 1 }, { "D", "M" }, { "D", "V" }, { 0.5 },
  { 0.25, 0.5 }, { "M", "M" }, { "V", "V" }, { "S", "S" }, { "N", "S" }, { "B3", "B3" }, { "V", "W" }, { "M", 1 },
  { tide.float32 }, { tide.int32 }, { { 3, 2 } }, { { 1 } }, { { 2, 3 }, { 3, 1 } }, { "F" }, { "M", "F" }, { "M", "S" },
  { "cpu" }, { { 2, 3 }, 2 }, { 0, 1, 5 }, { "R" }, { "W", "R" }, { "M", 0.5 }, { 1, { 1, 2 } }, { "J", 1 }, { "I", "W" },
}
local firsts = {
  {}, { 3 }, { 2, 3 }, { 0, 1, 5 }, { { 2, 3 } }, { { 2, 3 }, 2 }, { { 2, 3 }, { 3, 1 } }, { "L" }, { "L1" }, { 1, 9, { 2, 2 } },
  { 9, { 2, 2 } }, { tide.float32 }, { tide.float32, tide.int32 }, { "F" }, { "float32" }, { true }, { { 1, 2, 3 } },
  { "M", "cpu" }, { "ST" }, { 7 }, { "L", 1 }, { { 2, 3 }, { 2, 1 } }, { "highest" },
}

local function maker(names, first, device)
  return function(v)
    if not v then tide.manual_seed(1) end
    v = v or values(device)
    local args = {}
    if first then args[1] = v[first]() end
    for _, a in ipairs(names) do
      if type(a) == "string" and v[a] then
        a = v[a]()
      elseif type(a) == "table" then
        a = { table.unpack(a) }
      end
      args[#args + 1] = a
    end
    return args
  end
end

-- The first arguments with which the function works, or nil. A function of the module takes more than tensors. What it
-- refuses it leaves as it was, so that values are made once for each function, and again for arguments that it took.
local function find(name, fn, is_method, device)
  local once, made = {}, {}
  for key, value in pairs(values(device)) do
    once[key] = function()
      if not made[key] then made[key] = value() end
      return made[key]
    end
  end
  local function try(names, first)
    local make = maker(names, first, device)
    if pcall(fn, table.unpack(make(once))) and pcall(fn, table.unpack(make())) then return { name = name, fn = fn, make = make } end
  end
  for _, first in ipairs(receivers) do
    for _, names in ipairs(rest) do
      local call = try(names, first)
      if call then return call end
    end
  end
  if is_method then return end
  for _, names in ipairs(firsts) do
    local call = try(names)
    if call then return call end
  end
end

local function sorted(t)
  local names = {}
  for name, fn in pairs(t) do
    if type(name) == "string" and type(fn) == "function" and not skipped[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Calls of all functions of the module and of all methods of tensors, and the names of those for which none was found.
function M.all(device)
  local calls, missing = {}, {}
  for _, name in ipairs(sorted(tide.Tensor)) do
    local call = find("x:" .. name, tide.Tensor[name], true, device)
    if call then calls[#calls + 1] = call else missing[#missing + 1] = "x:" .. name end
  end
  for _, name in ipairs(sorted(tide)) do
    local call = tide[name] ~= rawget(tide.Tensor, name) and find("tide." .. name, tide[name], false, device)
    if call then calls[#calls + 1] = call
    elseif call == nil then missing[#missing + 1] = "tide." .. name end
  end
  return calls, missing
end

-- Calls of the functions of one table; `path` stands before their names.
function M.of(space, path, device)
  local calls = {}
  for _, name in ipairs(sorted(space)) do
    local call = find(path .. name, space[name], false, device)
    if call then calls[#calls + 1] = call end
  end
  return calls
end

return M
