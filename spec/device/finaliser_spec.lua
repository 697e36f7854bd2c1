-- Finalisers that free, replace or reshape what a call works on, at every moment at which a collection can run one.
local D = require "spec.support.device"
local calls = require "spec.support.calls"
local collecting = require "spec.support.collecting"
local tide = require "tide"

local device = D.cuda and "cuda" or "cpu"

-- All tensors among the arguments, at any depth.
local function tensors_of(v, found)
  found = found or {}
  if tide.is_tensor(v) then found[#found + 1] = v
  elseif type(v) == "table" then
    for _, w in pairs(v) do tensors_of(w, found) end
  end
  return found
end

local function text(v)
  if tide.is_tensor(v) then return tostring(v) end
  if type(v) ~= "table" or getmetatable(v) then return type(v) == "number" and tostring(v) or type(v) end
  local parts = {}
  for k, w in pairs(v) do parts[#parts + 1] = tostring(k) .. "=" .. text(w) end
  table.sort(parts)
  return table.concat(parts, ",")
end

-- What is not the same twice, or is about the process.
local varies = {}
for name in ([[storage data_ptr record_stream free iter set_ resize_ serialize help Timer empty empty_like new_empty
  empty_strided new_empty_strided keep set_rng_state get_rng_state manual_seed initial_seed is_storage
  is_dtype set_default_dtype set_float32_matmul_precision]]):gmatch "%S+" do
  varies[name] = true
end

-- They take no operand, and allocate for every function that there is.
local listings = { help = true, _rows = true }

describe("a finaliser in the middle of a call", function()
  local all

  setup(function()
    local print0 = print
    print = function() end -- luacheck: ignore
    all = calls.all(device)
    print = print0 -- luacheck: ignore
  end)

  -- `harm` gets a tensor that the call may be using.
  -- An operand that changes before the call has read it gives another result, which is right too: `may_differ`.
  local function walk(harm, containers, may_differ)
    local same, refused = 0, 0
    local print0 = print
    for k = D.step, #all, D.step do
      local call = all[k]
      local name = call.name:match "[%w_]+$"
      if listings[name] then goto continue end
      print = function() end -- luacheck: ignore
      local wanted = table.pack(call.fn(table.unpack(call.make())))
      local words = {}
      for i = 1, wanted.n do words[i] = text(wanted[i]) end
      local args = call.make()
      local victims, kept = tensors_of(args), {}
      local function act()
        for _, x in ipairs(victims) do pcall(harm, x) end
        if containers then
          for _, a in ipairs(args) do
            if type(a) == "table" then for k in pairs(a) do a[k] = nil end end
          end
          victims = {}
        end
        kept[#kept % 8 + 1] = tide.full({ 2, 3 }, -77, { device = device }) -- which would get the freed memory
      end
      local plain = { table.unpack(args) }
      if containers then args = plain end
      local results = table.pack(collecting.call(act, call.fn, table.unpack(plain)))
      print = print0 -- luacheck: ignore
      -- Either the values were all there when the call read them, and then the result is right, or it was refused.
      if not results[1] then
        refused = refused + 1
      else
        same = same + 1
        for i = 1, wanted.n do
          if not may_differ and not varies[name] and words[i] ~= text(results[i + 1]) and not (tide.is_tensor(results[i + 1]) and
            rawequal(results[i + 1], plain[1])) then
            error(call.name .. ": " .. text(results[i + 1]) .. " for " .. words[i])
          end
        end
      end
      ::continue::
    end
    return same, refused
  end

  -- Most calls came to an end, one way or the other, and what they worked in still serves.
  local function walked(same, refused)
    assert.is_true(same + refused > 100 // D.step and same > 10, same .. " " .. refused)
    local x = tide.arange(1000, { device = device, dtype = "float64" })
    D.eq(999 * 500, (x + 0):sum())
  end

  it("that frees every operand changes no result", function()
    local same = walk(function(x) x:free() end)
    assert.is_true(same > 100 // D.step and collecting.runs > 300 // D.step, same .. " " .. collecting.runs)
  end)

  it("that gives every operand another shape leads to no bad access", function()
    walked(walk(function(x) if x.ndim ~= 1 then x:resize_(50) else x:resize_(1) end end, false, true))
  end)

  it("that makes every operand another tensor leads to no bad access", function()
    walked(walk(function(x) x:set_(tide.zeros(40, { dtype = x.dtype, device = device })) end, false, true))
  end)

  it("that empties the tables of a call changes no result", function()
    walked(walk(function() end, true))
  end)

  it("frees nothing that the call holds, and all of it afterwards", function()
    local x = tide.ones(64, { device = device })
    local freed
    local o = setmetatable({ x = x }, { __gc = function(o) freed = o.x:free() end })
    o = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_false(freed)
    assert.is_false((pcall(tide.neg, x)))
    if D.cuda then
      local before = tide.cuda.memory_allocated()
      local y = tide.ones(1 << 18, { device = device })
      setmetatable({ y = y }, { __gc = function(w) w.y:free() end })
      collectgarbage()
      collectgarbage()
      assert.are.equal(before, tide.cuda.memory_allocated())
      y = nil -- luacheck: ignore
    end
  end)

  it("gets a wrapper's memory back to an allocation that does not fit", function()
    if not D.cuda or not D.simulated then return pending "needs simulated devices" end
    local total = tide.cuda.get_device_properties(0).total_memory
    local n, freed = total // 4 // 5 * 2, 0
    for _ = 1, 6 do
      local o = setmetatable({ x = tide.empty(n, { device = "cuda:0" }) }, { __gc = function(o)
        o.x:free()
        freed = freed + 1
      end })
      o = nil -- luacheck: ignore
    end
    assert.is_true(freed >= 4, freed) -- two have room
    collectgarbage()
  end)

  it("leaves what it holds to the allocation that does not fit", function()
    if not D.cuda or not D.simulated then return pending "needs simulated devices" end
    local total = tide.cuda.get_device_properties(0).total_memory
    local n, seen = total // 4 // 5 * 2, 0
    for _ = 1, 6 do
      local o = setmetatable({ x = tide.empty(n, { device = "cuda:0" }) }, { __gc = function() seen = seen + 1 end })
      o = nil -- luacheck: ignore
    end
    assert.is_true(seen > 0)
    collectgarbage()
    collectgarbage()
  end)

  it("cannot free through the end of the block around it", function()
    local scope = tide.scope()
    local x = tide.arange(1000, { dtype = tide.float32, device = device })
    local wanted = 2 * 999 + 1
    local ok, y = collecting.call(function() scope:close() end, function() return x * 2 + 1 end)
    assert.is_true(ok)
    assert.are.equal(wanted, y[1000]:item())
    scope:close()
  end)

  it("that empties a table of options leaves what the call took out of it", function()
    if not D.cuda then return pending "needs a device" end
    local cuda = tide.cuda
    local x, opts = tide.zeros(4, { device = "cuda" }), {}
    local kernel = cuda.compile_kernel('extern "C" __global__ void inc(float *x) { x[threadIdx.x] += 1; }', "inc")
    local function fill()
      opts.stream, opts.pool, opts.grid, opts.block = cuda.Stream(), cuda.MemPool(), 1, 4
      cuda.synchronize()
    end
    local function empty() for k in pairs(opts) do opts[k] = nil end end
    local graph = cuda.CUDAGraph()
    for round = 1, 3 do
      fill()
      opts.grid, opts.block = nil, nil
      assert.is_true(collecting.call(empty, function() cuda.graph(graph, opts, function() x:add_(1) end) end))
      graph:replay()
      graph:reset()
      fill()
      opts.grid, opts.block = nil, nil
      assert.is_true(collecting.call(empty, function()
        local block <close> = cuda.graph(graph, opts)
        x:add_(1)
      end))
      graph:replay()
      fill()
      opts.pool = nil
      local ok, launch = collecting.call(empty, kernel.bind, kernel, opts, x)
      assert.is_true(ok)
      launch()
      cuda.synchronize()
      D.eq({ 3 * round, 3 * round, 3 * round, 3 * round }, x)
      graph:reset()
    end
  end)

  it("and a metamethod of options run no code of the script's between reading and use", function()
    local x = tide.ones(1000, { device = device })
    local function nasty() return setmetatable({}, { __index = function(_, k)
      x:free()
      return k == "rounding_mode" and "floor" or nil
    end }) end
    assert.are.equal(0.5, tide.div(x, 2, nasty())[1]:item())
    assert.are.equal(1000, x:sum(1, nasty()):item())
    assert.are.equal(1000, x:numel())
  end)

  it("is told of objects that were collected before it, and gets no other in their place", function()
    if not D.cuda then return pending "needs a device" end
    local cuda, told = tide.cuda, {}
    local x = tide.zeros(1, { device = "cuda" })
    local kernel = cuda.compile_kernel('extern "C" __global__ void inc(float *x) { x[0] += 1; }', "inc")
    local function dies(make, use) -- what is made later is collected first
      local holder = setmetatable({}, { __gc = function(h) told[#told + 1] = table.pack(pcall(use, h.object)) end })
      holder.object = make()
    end
    dies(cuda.Stream, function(s) kernel({ grid = 1, block = 1, stream = s }, x) end)
    dies(cuda.Stream, function(s) kernel:bind({ grid = 1, block = 1, stream = s }, x) end)
    dies(function() return cuda.CUDAPluggableAllocator("libc.so.6", "malloc", "free") end, cuda.MemPool)
    collectgarbage()
    collectgarbage()
    assert.are.equal(3, #told)
    for _, result in ipairs(told) do
      assert.is_false(result[1])
      assert.are.equal("StateError", result[2].kind, tostring(result[2]))
    end
    D.eq({ 0 }, x)
  end)

  it("does not reset the device", function()
    if not D.cuda then return pending "needs a device" end
    local kind
    setmetatable({}, { __gc = function()
      local ok, e = pcall(tide.cuda.device_reset)
      kind = ok or e.kind
    end })
    collectgarbage()
    assert.are.equal("StateError", kind)
  end)
end)
