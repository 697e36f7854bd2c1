-- ci: --steps 4 --out ci-trace.json
--
-- Where does the time go? A small training-like loop that is slower than it has to be: it reads its loss every step and
-- copies its batches while the device waits. The summary names the lines; the trace shows the gaps. The second loop has
-- the copies on a stream of their own and reads the losses once, at the end.
--
--   tide profile.lua [--steps 20] [--size 512] [--out trace.json]        open the file at ui.perfetto.dev
local tide = require "tide"
tide.manual_seed(1)
local cuda, nvtx, profiler = tide.cuda, tide.cuda.nvtx, tide.cuda.profiler
local options = { steps = "20", size = "256", out = "trace.json" }
for i = 1, #arg - 1, 2 do options[arg[i]:gsub("^%-%-", "")] = arg[i + 1] end
local steps, size = tonumber(options.steps), tonumber(options.size)

local gpu = cuda.is_available()
local device = gpu and "cuda" or "cpu"
local weights = {}
for i = 1, 3 do weights[i] = tide.randn(size, size, { device = device }) * (1 / size ^ 0.5) end

local batches = {}
for i = 1, steps do
  batches[i] = tide.randn(size, size, { device = "cpu" })
  if gpu then batches[i] = batches[i]:pin_memory() end
end

local function forward(x)
  for i, w in ipairs(weights) do
    nvtx.range("layer " .. i, function() x = x:matmul(w):tanh() end)
  end
  return (x * x):mean()
end

local function plain()
  local sum = 0
  for i = 1, steps do
    local _ <close> = nvtx.range("step " .. i)
    sum = sum + forward(batches[i]:to(device)):item() -- waits for the device, every time
  end
  return sum / steps
end

local function overlapped()
  local side, losses = cuda.Stream(), {}
  local function fetch(i)
    return cuda.stream(side, function() return batches[i] and batches[i]:to(device, { non_blocking = true }) end)
  end
  local x = fetch(1)
  for i = 1, steps do
    local _ <close> = nvtx.range("step " .. i)
    local here = x
    cuda.current_stream():wait_stream(side)
    x = fetch(i + 1) -- travels while this one is worked on
    losses[i] = forward(here)
  end
  return tide.stack(losses):mean():item()
end

local before = profiler.summary(plain)
print()
local loss = profiler.trace(gpu and overlapped or plain, options.out)
print(("loss %.6f; the trace is in %s"):format(loss, options.out))
if gpu then
  local after = profiler.summary(overlapped)
  local name = "cuda:" .. cuda.current_device()
  print(("%s was idle %.3f ms of %.3f ms before, %.3f ms of %.3f ms after"):format(name, before.devices[name].idle_ms,
    before.wall_ms, after.devices[name].idle_ms, after.wall_ms))
end
