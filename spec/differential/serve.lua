-- serve.lua: computes for run.py. Each request is a line "bytes of a chunk, number of tensors", the chunk, then of every
-- tensor a line "dtype, ndim, sizes, strides, offset, bytes" and its storage. The chunk gets the device, a function that
-- gives i a base of 1, and the tensors, and returns tensors. The answer is a line with their number, or "error" and its
-- kind; then of each a line "dtype, ndim, sizes, bytes" and its values.
local tide = require "tide"
local device = arg[1] or "cpu"

local function receive()
  local dtype, rest = io.read "l":match "^(%S+) (.*)$"
  local n = {}
  for w in rest:gmatch "%S+" do n[#n + 1] = math.tointeger(w) end
  local ndim = n[1]
  local size, stride = table.move(n, 2, ndim + 1, 1, {}), table.move(n, ndim + 2, 2 * ndim + 1, 1, {})
  local bytes = n[#n] > 0 and io.read(n[#n]) or ""
  local storage = tide.from_string(bytes, { dtype = dtype }):to(device)
  return storage:as_strided(size, stride, n[#n - 1])
end

local function send(x)
  local bytes = x:tostring_bytes()
  io.write(("%s %d %s%d\n"):format(tostring(x.dtype):gsub("^tide%.", ""), x:dim(),
    x:dim() > 0 and table.concat(x:size(), " ") .. " " or "", #bytes), bytes)
end

for line in io.lines() do
  local length, count = line:match "^(%d+) (%d+)$"
  local chunk = assert(load("local tide, device = ... ; return function(...) " .. io.read(math.tointeger(length)) .. " end"))(tide, device)
  local given = {}
  for i = 1, math.tointeger(count) do given[i] = receive() end
  local results = table.pack(pcall(function()
    local r = table.pack(chunk(table.unpack(given)))
    if device ~= "cpu" then tide.cuda.synchronize() end
    return table.unpack(r, 1, r.n)
  end))
  if results[1] then
    io.write(results.n - 1, "\n")
    for i = 2, results.n do send(results[i]) end
  else
    io.write("error ", results[2].kind or "?", " ", (tostring(results[2]):gsub("\n", " ")), "\n")
  end
  io.flush()
end
