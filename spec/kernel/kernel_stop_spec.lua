-- Loops of kernels written in Lua look now and then whether they are to end (kernel_stops.lua): what they compute stays what plain
-- Lua computes, however often they turn, and Ctrl-C ends one that goes on. What a quota stops: spec/sandbox/kernels.lua.

local tide = require "tide"
local D = require "spec.support.device"
local huge, least = math.maxinteger, math.mininteger

-- More turns than there are between two looks, on the CPU and a GPU, to bounds that lie anywhere.
local function turns(i, x, n, y)
  local a, b, c, d, e, f, g, h = 0, 0, 0, 0, 0, 0, 0, 0
  for k = 1, 40000 do a = a + k % 7 end
  for k = 20000, -20000, -3 do
    if k % 5 == 0 then goto next end
    if k < -19000 + i then break end
    b = b + k
    ::next::
  end
  for k = 1, n do c = c + k % 3 end
  for k = n, 1, -1025 do c = c + k end
  for k = huge - 5, huge do d = d + 1 end
  for k = least + 5, least, -1 do d = d + 1 end
  for k = huge - 20000, huge, 1 do d = d + 1 end
  while true do
    e = e + 1
    if e % 2 == 0 then goto again end
    f = f + e
    if e > 40000 + i then break end
    ::again::
  end
  repeat g = g + 1 until g >= 2050 + i
  for p = 1, 3 do
    for q = 1, 40 do for r = 1, 2 do h = h + p * q * r end end
    for q = 1, #x do h = h + q end
  end
  for k = 1, 300.5, 0.25 do x[i] = x[i] + k end
  for k = 5, 4 do x[i] = -1 end
  for k = 1, 0 do x[i] = -1 end
  y[i][1], y[i][2], y[i][3], y[i][4] = a, b, c, d
  y[i][5], y[i][6], y[i][7], y[i][8] = e, f, g, h
end

-- The same among threads that wait for each other, which turn differently often.
local function waiting(i, x, n)
  local s, t = tide.shared(tide.int64, 256), tide.thread()
  local all = 0
  for k = 1, n do
    s[t] = k
    tide.barrier()
    all = all + s[257 - t]
    tide.barrier()
  end
  for k = 1, 20000 + t * 1000 do all = all + k % 2 end
  tide.barrier()
  s[t] = all
  tide.barrier()
  x[i] = s[257 - t] + tide.block_sum(1)
end

describe("loops of a kernel that look whether to end", function()
  it("turn as often as in plain Lua", function()
    local x, y = tide.zeros(300, { dtype = "float64" }), tide.zeros(300, 8, { dtype = "int64" })
    local plain_x, plain_y = x:clone(), y:clone()
    tide.kernel.interpret(turns, 2, plain_x, 33000, plain_y)
    local k = tide.kernel(turns)
    for form = 1, 2 do
      x:zero_() y:zero_()
      k(2, x, 33000, y)
      assert.are.same(plain_y:cpu():totable(), y:cpu():totable(), form)
      assert.are.same(plain_x:cpu():totable(), x:cpu():totable(), form)
      if D.compiler then k:wait() end
    end
  end)

  it("turn as often where threads wait for each other", function()
    local x, k = tide.zeros(256, { dtype = "int64" }), tide.kernel(waiting)
    local want = x:clone()
    for t = 1, 256 do
      local other = 257 - t
      want[t] = 100 * 101 // 2 + (20000 + other * 1000) // 2 + 256
    end
    for _ = 1, 2 do
      k(256, x, 100)
      assert.are.same(want:cpu():totable(), x:cpu():totable())
      if D.compiler then k:wait() end
    end
  end)

  if D.simulated then
    it("look as blocks begin in grids of more than 2^28 places, and count up to 2^30 in 32 bits", function()
      local out = D.simulate(1, [[local tide = require "tide"
        local x = tide.zeros(3, 4, { device = "cuda" })
        for _, grid in ipairs { { 1 << 14, 1 << 14 }, { 1 << 14, (1 << 14) + 1 }, { 1 << 15, 1 << 15 }, { 1 << 15, (1 << 15) + 1 } } do
          for _, y in ipairs { x, x:t() } do
            local k = tide.kernel "function(i, j, y) if y[1][1] > i then y[1][1] = j end end"
            k(grid, y)
            local text = k:source "cuda"
            print(text:match "typedef ([%w ]+) tide_x;", text:find "\nTIDE_LATE" ~= nil)
          end
        end]], { TIDE_SIM_DRY = "1" })
      assert.are.equal(("int false "):rep(2) .. ("int true "):rep(4) .. ("long long true "):rep(2), (out:gsub("%s+", " ")))
    end)
  end

  it("do not look where constants bound them", function()
    local x = tide.zeros(4)
    local function looks(body, device, large) -- how many, and whether the blocks of a long grid do as they begin
      local k = tide.kernel("function(i, x, n) " .. body .. " end")
      k(large and 0 or 1, large or x, 0)
      local text, begins = k:source(device):gsub("\nTIDE_LATE%([^\n]*%)\n", "\n")
      local _, n = text:gsub("TIDE_STOPS%(%d", "")
      local _, ends = text:gsub("return tk_stopped%(s, %d", "")
      return n + ends, begins == 1
    end
    local small = "for k = 1, 3 do for m = -1, 1 do x[i] = x[i] + k * m end end"
    D.eq({ 0, false }, { looks(small, "cpu") })
    D.eq({ 0, false }, { looks(small, "cuda") })
    local large = x:expand(1 << 31, 4)
    D.eq({ 0, false }, { looks("local a = x[i][1]", "cpu", large) })
    D.eq({ 0, true }, { looks("local a = x[i][1]", "cuda", large) }) -- sizes that may be those of a long grid
    D.eq({ 0, true }, { looks("tide.atomic.add(x, 1, 1)", "cuda") })
    D.eq({ 0, true }, { looks("x[i] = x[i]" .. (" * 0.5 + n"):rep(900), "cuda") })
    for _, body in ipairs { "for k = 1, n do x[i] = k end", "for k = 1, #x do x[i] = k end", "for k = 1, 1000 do x[i] = k end",
      "while x[i] < n do x[i] = x[i] + 1 end", "repeat x[i] = x[i] + 1 until x[i] > 3", "for k = 1, 3 do while x[i] < n do x[i] = x[i] + 1 end end",
      "for k = 1, n do for m = 1, 3 do x[i] = m end end" } do
      for _, device in ipairs { "cpu", "cuda" } do
        local n, long = looks(body, device)
        assert.is_true(n >= 1, body)
        assert.are.equal(device == "cuda", long)
      end
    end
  end)
end)
