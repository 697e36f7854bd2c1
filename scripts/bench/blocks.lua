-- Kernels written in Lua on the CPU: plain Lua over tables, the block interpreter, and the system's compiler.
--
--   tide scripts/bench/blocks.lua [threads]
--
-- Times are processor time of the whole process, the least of several, so that what else the machine does is not in
-- them; with n threads a launch takes about one nth of it.

local tide = require "tide"
tide.manual_seed(1)
tide.set_num_threads(tonumber(arg and arg[1] or 2))

local function least(times, fn)
  local best = math.huge
  for _ = 1, times do
    local t = os.clock()
    fn()
    best = math.min(best, os.clock() - t)
  end
  return best
end

local function grid(rows, columns, fn)
  local t = {}
  for i = 1, rows do
    t[i] = {}
    for j = 1, columns do t[i][j] = fn(i, j) end
  end
  return t
end

-- name, size, kernel, its arguments, and the same loops in plain Lua, which give how many places they did
local cases = {}

local function case(name, shape, fn, args, plain) cases[#cases + 1] = { name = name, shape = shape, fn = fn, args = args, plain = plain } end

case("mandelbrot", { 1024, 1024 }, function(i, j, out, most)
  local cr, ci = (j - 1) * (3.0 / 1024) - 2.2, (i - 1) * (2.4 / 1024) - 1.2
  local x, y, k = 0.0, 0.0, 0
  while k < most and x * x + y * y <= 4.0 do
    x, y = x * x - y * y + cr, 2.0 * x * y + ci
    k = k + 1
  end
  out[i][j] = k
end, function() return { tide.zeros({ 1024, 1024 }, { dtype = "int32" }), 256 } end, function()
  local out, n = grid(64, 64, function() return 0 end), 64
  for i = 1, n do
    for j = 1, n do
      local cr, ci = (j - 1) * (3.0 / n) - 2.2, (i - 1) * (2.4 / n) - 1.2
      local x, y, k = 0.0, 0.0, 0
      while k < 256 and x * x + y * y <= 4.0 do
        x, y = x * x - y * y + cr, 2.0 * x * y + ci
        k = k + 1
      end
      out[i][j] = k
    end
  end
  return n * n
end)

case("life", { 1024, 1024 }, function(i, j, a, b)
  local h, w = a.shape[1], a.shape[2]
  local up, down, left, right = (i - 2) % h + 1, i % h + 1, (j - 2) % w + 1, j % w + 1
  local n = a[up][left] + a[up][j] + a[up][right] + a[i][left] + a[i][right] + a[down][left] + a[down][j] + a[down][right]
  if n == 3 or n == 2 and a[i][j] == 1 then b[i][j] = 1 else b[i][j] = 0 end
end, function()
  return { tide.randint(0, 2, { 1024, 1024 }, { dtype = "int32" }), tide.zeros({ 1024, 1024 }, { dtype = "int32" }) }
end, function()
  local n = 256
  local a, b = grid(n, n, function(i, j) return (i * 7 + j * 13) % 3 // 2 end), grid(n, n, function() return 0 end)
  for i = 1, n do
    for j = 1, n do
      local up, down, left, right = (i - 2) % n + 1, i % n + 1, (j - 2) % n + 1, j % n + 1
      local sum = a[up][left] + a[up][j] + a[up][right] + a[i][left] + a[i][right] + a[down][left] + a[down][j] + a[down][right]
      if sum == 3 or sum == 2 and a[i][j] == 1 then b[i][j] = 1 else b[i][j] = 0 end
    end
  end
  return n * n
end)

case("wave", { 1024, 1024 }, function(i, j, u, before, out, c)
  if i > 1 and i < u.shape[1] and j > 1 and j < u.shape[2] then
    local around = u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - 4.0 * u[i][j]
    out[i][j] = 2.0 * u[i][j] - before[i][j] + c * around
  else
    out[i][j] = 0.0
  end
end, function() return { tide.randn(1024, 1024), tide.randn(1024, 1024), tide.zeros(1024, 1024), 0.25 } end, function()
  local n = 256
  local function some(i, j) return (i * 7 + j * 13) % 10 / 10 end
  local u, before, out = grid(n, n, some), grid(n, n, some), grid(n, n, some)
  for i = 1, n do
    for j = 1, n do
      if i > 1 and i < n and j > 1 and j < n then
        local around = u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - 4.0 * u[i][j]
        out[i][j] = 2.0 * u[i][j] - before[i][j] + 0.25 * around
      else
        out[i][j] = 0.0
      end
    end
  end
  return n * n
end)

case("n-body", { 4096 }, function(i, p, a)
  local x, y, z, ax, ay, az = p[i][1], p[i][2], p[i][3], 0.0, 0.0, 0.0
  for k = 1, p.shape[1] do
    local dx, dy, dz = p[k][1] - x, p[k][2] - y, p[k][3] - z
    local r2 = dx * dx + dy * dy + dz * dz + 0.01
    local f = 1.0 / (r2 * math.sqrt(r2))
    ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
  end
  a[i][1], a[i][2], a[i][3] = ax, ay, az
end, function() return { tide.randn(4096, 3), tide.zeros(4096, 3) } end, function()
  local n = 300 -- bodies of 4096 are done
  local p, a = grid(4096, 3, function(i, j) return (i * 7 + j * 13) % 10 / 10 end), grid(n, 3, function() return 0 end)
  for i = 1, n do
    local x, y, z, ax, ay, az = p[i][1], p[i][2], p[i][3], 0.0, 0.0, 0.0
    for k = 1, 4096 do
      local dx, dy, dz = p[k][1] - x, p[k][2] - y, p[k][3] - z
      local r2 = dx * dx + dy * dy + dz * dz + 0.01
      local f = 1.0 / (r2 * math.sqrt(r2))
      ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
    end
    a[i][1], a[i][2], a[i][3] = ax, ay, az
  end
  return n
end)

print "case         plain Lua ns/place   interpreted   compiled   Lua / interpreted   interpreted / compiled"
for _, c in ipairs(cases) do
  local places = 1
  for _, n in ipairs(c.shape) do places = places * n end
  local args, done = c.args(), nil
  local k = tide.kernel(c.fn)
  k(c.shape, table.unpack(args)) -- what a first call compiles of the kernel is not in it
  local interpreted = least(3, function() k(c.shape, table.unpack(args)) end)
  local still = not k:ready()
  local compiled = pcall(k.wait, k) and k:ready() and least(5, function() k(c.shape, table.unpack(args)) end) or 0 / 0
  local plain = least(3, function() done = c.plain() end)
  local a, b, d = plain / done * 1e9, interpreted / places * 1e9, compiled / places * 1e9
  print(("%-12s %18.1f %13.2f %10.2f %19.0f %24.2f%s"):format(c.name, a, b, d, a / b, b / d, still and "" or "  (compiled meanwhile)"))
end
