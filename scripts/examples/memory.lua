-- ci: --steps 4 --out ci-memory.json
--
-- Who holds the memory of the device? A made-up training loop with a leak in it, and the four ways of finding that out:
-- counts of a labelled block, the summary, the error of an allocation that fails, and a snapshot with its history.
--
--   tide memory.lua [--steps 30] [--out memory.json]
--   tide scripts/memory_page.lua memory.json memory.html      makes a page of it; open that in any browser
local tide = require "tide"
tide.manual_seed(1)
local cuda = tide.cuda
local options = { steps = "30", out = "memory.json" }
for i = 1, #arg - 1, 2 do options[arg[i]:gsub("^%-%-", "")] = arg[i + 1] end

if not cuda.is_available() then
  print "memory.lua: there is no GPU; TIDE_SIM_DEVICES=1 tide memory.lua shows the same on a simulated one"
  os.exit(0)
end

local gpu = { device = "cuda" }
cuda.memory.record_history() -- from here on every allocation and release is kept with its line

local weights = cuda.memory.scope("model", function()
  local list = {}
  for i = 1, 8 do list[i] = tide.randn(128 * i, 512, gpu) end
  return list
end)

local losses = {}
local function step()
  local activations, x = {}, tide.randn(64, 512, gpu)
  for i, w in ipairs(weights) do activations[i] = x:matmul(w:t()):relu_() end
  losses[#losses + 1] = activations[8] -- the leak: a whole tensor is kept where one number was meant
  local sum = 0
  for _, a in ipairs(activations) do sum = sum + a:mean():item() end
  return sum
end

for i = 1, tonumber(options.steps) do
  local _, counts = cuda.memory.scope("step", step)
  collectgarbage()
  if i % 10 == 1 then
    print(("step %d: %.2f MiB allocated, %.2f MiB at once, %d allocations"):format(i, counts.allocated_bytes / 2 ^ 20,
      counts.peak_bytes / 2 ^ 20, counts.allocations))
  end
end

print(cuda.memory_summary(nil, { abbreviated = true }))

local _, total = cuda.mem_get_info()
local fits, problem = pcall(tide.empty, total, gpu)
print(fits or "an allocation of four times the device says:\n  " .. problem.message)

cuda.memory.dump_snapshot(options.out)
print("written: " .. options.out)
