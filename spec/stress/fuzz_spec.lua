-- Random programs over a few tensors, run on the cpu and on the device under test with side streams, then compared. What
-- goes wrong names its seed. TIDE_STRESS=n runs n programs instead of a few.

local tide = require "tide"
local D = require "spec.support.device"

local programs = tonumber(os.getenv "TIDE_STRESS" or 30)

-- Lua's own generator, so that both runs draw alike.
local function dice(seed)
  local state = seed * 2654435761 % 4294967296
  return function(n)
    state = (state * 1664525 + 1013904223) % 4294967296
    return (state >> 8) % n + 1
  end
end

local unary = { "neg", "abs", "floor", "sign", "relu", "square" }
local binary = { "add", "sub", "mul", "maximum", "minimum" }

-- One step on the table of tensors t; exact in float64, so both runs agree bit for bit.
local function step(t, roll, shape)
  local i, j, k = roll(#t), roll(#t), roll(#t)
  local what = roll(12)
  if what <= 2 then t[i] = t[j][unary[roll(#unary)]](t[j])
  elseif what <= 4 then t[i] = tide[binary[roll(#binary)]](t[j], t[k])
  elseif what == 5 then t[i]:add_(t[j])
  elseif what == 6 then t[i] = t[j]:t():contiguous():t()
  elseif what == 7 then t[i][roll(shape)] = t[j][roll(shape)]
  elseif what == 8 then t[i] = t[j]:flip { 1 }:roll(1, 2)
  elseif what == 9 then t[i] = tide.where(t[j]:gt(t[k]), t[j], t[k]):clone()
  elseif what == 10 then t[i] = t[j] - t[k]:sum(roll(2), { keepdim = true }):remainder(17)
  elseif what == 11 then t[i]:slice(1, 1, shape, 2):copy_(t[j]:slice(2, 1, shape, 2):t():float())
  else t[i] = t[j]:index_select(1, tide.range(shape, 1, -1, { device = t[j].device })) end
  t[i]:remainder_(1000)
end

local function run(seed, device, streams)
  local roll, shape, t = dice(seed), dice(seed)(9) + 2, {}
  for i = 1, 4 do t[i] = tide.arange(shape * shape, { dtype = "float64", device = device }):view(shape, shape) * i - 7 end
  local n = roll(25) + 5
  for _ = 1, n do
    local side = roll(3)
    if streams and side > 1 then
      local s, main = streams[side - 1], tide.cuda.current_stream()
      s:wait_stream(main)
      tide.cuda.stream(s, step, t, roll, shape)
      main:wait_stream(s)
    else
      step(t, roll, shape)
    end
  end
  local out = {}
  for i = 1, 4 do out[i] = t[i]:totable() end
  return out
end

describe("random programs", function()
  D.watch(before_each, after_each)
  it("give on the device what they give on the cpu", function()
    for seed = 1, programs do
      local streams = D.cuda and { tide.cuda.Stream(), tide.cuda.Stream { priority = -1 } }
      local want, got = run(seed, "cpu"), run(seed, D.dev, streams)
      D.eq(want, got, 0, "seed " .. seed)
    end
  end)
end)
