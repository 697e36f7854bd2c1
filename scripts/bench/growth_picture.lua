-- growth_picture.lua LOG [PICTURE]: draws what growth.lua and growth_torch.py print, an operation a panel, and prints for
-- each what a call costs (its time for one element), the knee (the size from which it takes twice that) and the
-- bandwidth at the largest size.
local tide = require "tide"
local log, path = arg[1], arg[2] or "growth.png"

-- Bytes an element that an operation reads and writes; of a matmul, 2 n^3 operations over n^2 elements.
local bytes = {add = 12, exp = 8, sum = 4, transpose = 8, normal_ = 4, gather = 16, cumsum = 8, softmax = 8, sort = 16}

local names, times, sources = {}, {}, {"tide", "torch"} -- times[name][source] = {x, y}
for line in io.lines(log) do
  local source, name, k, value = line:match "^(%w+)\tgrowth_(%S+)_2^(%d+)\t(%S+)"
  if source then
    if not times[name] then
      names[#names + 1], times[name] = name, {tide = {x = {}, y = {}}, torch = {x = {}, y = {}}}
    end
    local list = times[name][source]
    table.insert(list.x, 2.0 ^ k)
    table.insert(list.y, tonumber(value))
  end
end

local function words(list, name)
  local first, n = list.y[1], #list.y
  if not first then return " - | - | -" end
  local knee = n
  for i = n, 1, -1 do
    if list.y[i] >= 2 * first then knee = i else break end
  end
  local rate = bytes[name] and ("%.0f GB/s"):format(bytes[name] * list.x[n] / list.y[n] / 1e3)
    or ("%.1f TFLOP/s"):format(2 * list.x[n] ^ 1.5 / list.y[n] / 1e6)
  return (" %.1f us | 2^%d | %s"):format(first, math.log(list.x[knee], 2) // 1, rate)
end

print "| operation | a call | knee | at the end | PyTorch: a call | knee | at the end |"
print "| --- | --- | --- | --- | --- | --- | --- |"
local rows, row = {}, {}
for i, name in ipairs(names) do
  local t = times[name]
  print(("| %s |%s |%s |"):format(name, words(t.tide, name), words(t.torch, name)))
  local xs, ys, labels = {}, {}, {}
  for _, source in ipairs(sources) do
    if #t[source].x > 0 then
      xs[#xs + 1], ys[#ys + 1], labels[#labels + 1] = t[source].x, t[source].y, source == "torch" and "PyTorch" or source
    end
  end
  row[#row + 1] = tide.plot(xs, ys, {title = name, labels = labels, log = "xy", width = 400, height = 320,
    xlabel = i > #names - 5 and "elements" or "", ylabel = i % 5 == 1 and "microseconds a call" or ""})
  if #row == 5 or i == #names then
    local line = tide.cat(row, 2)
    rows[#rows + 1], row = line:pad({0, 0, 0, math.min(#names, 5) * 400 - line:size(2)}, {value = 255}), {}
  end
end
tide.save_png(path, tide.cat(rows, 1))
print("wrote " .. path)
