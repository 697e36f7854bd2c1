-- Barriers and sums of a block that not all of its threads come to: an error, with its line, interpreted, compiled, and on a
-- GPU; and those that all come to, though no compiler can tell.

local tide = require "tide"
local D = require "spec.support.device"
local debug, tostring, pcall = debug, tostring, pcall
local size, block = 43, 16 -- the last block has 11 threads in the grid

-- Kernels that fail, and how many lines below their first the barrier is.
local apart = {
  { 1, function(i, y)
    if i % 16 > 5 then tide.barrier() end
    y[i] = i
  end },
  { 1, function(i, y)
    if i % 2 == 0 then tide.barrier() else y[i] = 2 end
    tide.barrier()
  end },
  { 2, function(i, y)
    if i % 3 == 0 then
      tide.barrier()
    else
      tide.barrier()
    end
    y[i] = i
  end },
  { 1, function(i, y)
    for _ = 1, i do tide.barrier() end
    y[i] = i
  end },
  { 4, function(i, y)
    local k = 0
    while k < i do
      k = k + 1
      tide.barrier()
    end
    y[i] = k
  end },
  { 1, function(i, y)
    y[i] = i > 20 and tide.block_sum(1) or 0
  end },
  { 2, function(i, y)
    if tide.thread() == 1 then
      y[i] = tide.block_sum(i)
    else
      tide.barrier()
    end
  end },
  { 3, function(i, y)
    tide.barrier()
    tide.barrier()
    if y[i] == 0 and tide.thread() < 3 then tide.barrier() end
    tide.barrier()
    y[i] = 1
  end },
  { 2, function(i, y)
    for k = 1, 2 do
      for _ = 1, (i + k) % 2 + 1 do tide.barrier() end -- as many for all, in other turns
    end
    y[i] = i
  end },
  { 3, function(i, y)
    if i % 16 == 3 then return end
    y[i] = 1
    if i % 16 > 8 then tide.barrier() end
    y[i] = 2
  end },
}

-- Kernels that do not.
local together = {
  function(i, y) -- those that have returned are no longer waited for
    if i % 16 < 9 then return end
    tide.barrier()
    y[i] = tide.block_sum(1)
  end,
  function(i, y)
    if tide.block() == 2 then
      tide.barrier()
      y[i] = tide.block_sum(i)
    end
  end,
  function(i, y) -- what all threads read they decide alike
    local all = tide.shared(tide.int32, 2)
    if tide.thread() == 1 then all[1], all[2] = 0, tide.block() end
    tide.barrier()
    local turns = 0
    while true do
      tide.barrier()
      if all[1] >= all[2] + 3 then break end
      tide.barrier()
      if tide.thread() == 1 then all[1] = all[1] + 1 end
      turns = turns + 1
      tide.barrier()
    end
    y[i] = turns
  end,
  function(i, y)
    local sum = 0
    for k = 1, 3 do
      if k > 1 then sum = sum + tide.block_sum(k) end
      for _ = 1, k do tide.barrier() end
    end
    y[i] = sum
  end,
  function(i, y)
    local k = 0
    if i % 2 == 0 then
      for _ = 1, i do k = k + 1 end
    end
    tide.barrier()
    if k == 12 then return end
    y[i] = tide.block_sum(1) + k
  end,
}

local function zeros() return tide.zeros(size, { dtype = "float32", device = D.dev }) end

-- fn(k), at the first call and, where there is a compiler, compiled.
local function each_form(fn, check)
  local k = tide.kernel(fn, { block = block })
  check(k, "at the first call")
  if not D.compiler then return end
  k:wait()
  check(k, "compiled")
end

describe("threads of a block that wait for each other", function()
  D.watch(before_each, after_each)

  it("all come to a barrier or a sum, or it is an error with its line", function()
    for n, case in ipairs(apart) do
      local line = debug.getinfo(case[2], "S").linedefined + case[1]
      each_form(case[2], function(k, form)
        local e = D.raises("ValueError", function()
          k(size, zeros())
          if D.cuda then tide.cuda.synchronize(D.dev) end
        end)
        local what = ("kernel %d, %s: %s"):format(n, form, tostring(e))
        assert.is_truthy(tostring(e):find("some threads of a block came to a barrier or a sum of the block and others did not", 1, true), what)
        assert.is_truthy(tostring(e):find("kernel_barrier_spec.lua:" .. line, 1, true), what)
      end)
    end
    D.eq({ 6 }, tide.ones(6, { device = D.dev }):sum():view(1)) -- the device goes on
  end)

  it("come together where they decide alike, or have returned", function()
    for n, fn in ipairs(together) do
      local expected = zeros():cpu()
      tide.kernel.interpret(fn, size, expected, { block = block })
      each_form(fn, function(k, form)
        local y = zeros()
        k(size, y)
        D.eq(expected, y, 0, ("kernel %d, %s"):format(n, form))
      end)
    end
  end)
end)
