-- table.lua: reads lines `source <tab> case <tab> value <tab> unit`, prints medians side by side and tide's ratio to each
-- peer: for rates (GB/s, TFLOP/s) above 1 is faster than the peer, for times (ns, ms) below 1 is. With a second argument
-- also the geometric mean of the ratios, and the cases whose ratio is below that number; a third, "best", takes the highest
-- rate in place of the median.
local rows, order, sources = {}, {}, {}
for line in io.lines(arg[1]) do
  local source, case, value, unit = line:match("^(%w+)\t(%S+)\t(%S+)\t(.*)$")
  if source then
    if not rows[case] then
      rows[case] = {unit = unit}
      order[#order + 1] = case
    end
    if not sources[source] then
      sources[source] = true
      sources[#sources + 1] = source
    end
    rows[case][source] = rows[case][source] or {}
    table.insert(rows[case][source], tonumber(value))
  end
end
local function median(list)
  table.sort(list)
  return list[arg[3] == "best" and #list or (#list + 1) // 2]
end
table.sort(sources, function(a, b) return (a == "tide" and "" or a) < (b == "tide" and "" or b) end)
io.write(("%-28s %-8s"):format("case", "unit"))
for _, s in ipairs(sources) do io.write((" %10s"):format(s)) end
for i = 2, #sources do io.write((" %14s"):format("tide/" .. sources[i])) end
print()
local floor, product, count, below = tonumber(arg[2]), 0, 0, {}
for _, case in ipairs(order) do
  local row = rows[case]
  io.write(("%-28s %-8s"):format(case, row.unit))
  for _, s in ipairs(sources) do io.write(row[s] and (" %10.4g"):format(median(row[s])) or (" %10s"):format("-")) end
  for i = 2, #sources do
    local peer = row[sources[i]]
    local ratio = peer and row.tide and median(row.tide) / median(peer)
    io.write(ratio and (" %14.3f"):format(ratio) or (" %14s"):format("-"))
    if ratio then product, count = product + math.log(ratio), count + 1 end
    if ratio and floor and ratio < floor then below[#below + 1] = ("%s %.2f"):format(case, ratio) end
  end
  print()
end
if floor and count > 0 then
  print(("geometric mean of %d: %.3f; below %g: %d"):format(count, math.exp(product / count), floor, #below))
  if below[1] then print(table.concat(below, "\n")) end
end
