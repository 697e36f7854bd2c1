-- Tensors as pictures: in a terminal, and as plots.

local tide = require "tide"
local D = require "spec.support.device"
local terminal = require "spec.support.terminal"

describe("imshow", function()
  D.watch(before_each, after_each)

  local function show(x, opts)
    opts.text = true
    return x:imshow(opts)
  end

  it("shows two rows of pixels in a line, as colours of a map", function()
    local x = D.tensor({ { 0, 1 }, { 1, 0 } }, "float32")
    local dark, light = "2;68;1;84m", "2;253;231;37m" -- viridis' ends
    assert.are.equal("\27[38;" .. dark .. "\27[48;" .. light .. "▀\27[38;" .. light .. "\27[48;" .. dark .. "▀\27[0m\n0 to 1\n",
      show(x, { color = "true" }))
    assert.are.equal("\27[38;5;16m\27[48;5;231m▀\27[38;5;231m\27[48;5;16m▀\27[0m\n0 to 1\n", show(x, { color = "256", cmap = "gray" }))
    assert.are.equal("==\n0 to 1\n", show(x, { color = "none", cmap = "gray" }))
    assert.are.equal("\27[38;" .. dark .. "▀▀\27[0m\n0 to 0\n", show(tide.zeros({ 1, 2 }, { device = D.dev }), { color = "true", vmin = 0, vmax = 0 }):gsub("33;145;140", "68;1;84"))
  end)

  it("has brighter characters for larger values, and takes limits", function()
    local x = tide.arange(0, 10, { device = D.dev, dtype = "float32" }):unsqueeze(1)
    assert.are.equal(" .:-=+*#%@\n0 to 9\n", show(x, { color = "none", cmap = "gray" }))
    assert.are.equal("     @@@@@\n4 to 5\n", show(x, { color = "none", cmap = "gray", vmin = 4, vmax = 5 }))
    assert.are.equal(" @\n0 to 1\n", show(D.tensor({ { false, true } }, "bool"), { color = "none", cmap = "gray" }))
  end)

  it("tells NaN from all else, and keeps infinities at the ends", function()
    local x = D.tensor({ { 0, 0 / 0, 1, 1 / 0, -1 / 0 } }, "float32")
    assert.are.equal(" ?@@ \n0 to 1, 1 of NaN\n", show(x, { color = "none", cmap = "gray" }))
    assert.is_truthy(show(x, { color = "true" }):find("38;2;255;0;255", 1, true))
    assert.are.equal("?\n0 to 0, 1 of NaN\n", show(D.tensor({ { 0 / 0 } }, "float32"), { color = "none" }))
  end)

  it("shows pictures of three planes or of three channels, of bytes or of numbers", function()
    local x = D.tensor({ { { 255, 0, 0 }, { 0, 255, 0 } } }, "uint8")
    local want = "\27[38;2;255;0;0m▀\27[38;2;0;255;0m▀\27[0m\n"
    assert.are.equal(want, show(x, { color = "true" }))
    assert.are.equal(want, show(x:permute(3, 1, 2), { color = "true" }))
    assert.are.equal(want, show(x:to("float32"):div(255), { color = "true" }))
    assert.are.equal(want, show(tide.cat({ x, x:narrow(3, 1, 1) }, 3), { color = "true" })) -- without the alpha
    assert.are.equal(" @\n0 to 255\n", show(x:narrow(3, 2, 1), { color = "none", cmap = "gray" }))
    assert.are.equal(" @\n0 to 255\n", show(x:permute(3, 1, 2):narrow(1, 2, 1), { color = "none", cmap = "gray" }))
  end)

  it("makes large ones small by means, and others as wide as it is told", function()
    local x = tide.arange(0, 400, { device = D.dev, dtype = "float32" }):unsqueeze(1):expand(100, 400)
    local said = show(x, { color = "none", cmap = "gray", width = 10 })
    assert.are.equal(" .:-=+*#%@\n .:-=+*#%@\n19.5 to 379.5\n", said) -- the height goes with it
    assert.are.equal("    @@@@\n    @@@@\n0 to 1\n", show(D.tensor({ { 0, 1 } }, "float32"), { color = "none", cmap = "gray", width = 8 }))
    assert.are.equal(80 + 1, #show(tide.zeros({ 2, 5000 }, { device = D.dev }), { color = "none" }):match "^.-\n")
  end)

  it("is no wider than it can be shown", function()
    for _, width in ipairs { 0, 1e5 // 1 | 0, math.maxinteger } do D.raises("ValueError", show, tide.zeros(3, 3), { width = width }) end
  end)

  it("is what a terminal can show", function()
    local line = "tide.tensor({{0, 1}}):imshow()"
    local out = D.run({ "-e", "local tide = require 'tide' " .. line }, { env = { COLORTERM = "truecolor", TERM = "xterm-256color" } })
    assert.are.equal(".%\n0 to 1\n", out) -- a pipe
    for term, want in pairs { xterm = "%.%%\r\n0 to 1", ["xterm-256color"] = "38;5;%d+m", dumb = "%.%%\r\n0 to 1" } do
      local said = terminal.session({ line .. "\r", { expect = "0 to 1" }, terminal.settle, "\4" }, { term = term, env = { COLORTERM = "", NO_COLOR = "" } })
      assert.matches(want, said)
    end
    local said = terminal.session({ line .. "\r", { expect = "0 to 1" }, terminal.settle, "\4" }, { term = "xterm-256color", env = { COLORTERM = "truecolor", NO_COLOR = "" } })
    assert.matches("38;2;68;1;84m", said)
    local off = { COLORTERM = "truecolor", NO_COLOR = "1" }
    assert.matches("%.%%\r\n0 to 1", (terminal.session({ line .. "\r", { expect = "0 to 1" }, terminal.settle, "\4" }, { env = off })))
  end)

  it("names what is wrong", function()
    for _, x in ipairs { tide.ones(3), tide.ones({}), tide.ones(2, 2, 2), tide.ones(0, 3), tide.ones(1, 2, 3, 4) } do
      D.raises("ShapeError", tide.imshow, x)
    end
    D.raises("DtypeError", tide.imshow, tide.ones({ 2, 2 }, { dtype = "complex64" }))
    D.raises("ArgumentError", tide.imshow, tide.ones(2, 2), { cmap = "jet" })
    D.raises("ArgumentError", tide.imshow, tide.ones(2, 2), { colour = "true" })
    D.raises("ValueError", tide.imshow, tide.ones(2, 2), { width = 0 })
    D.raises("ArgumentError", tide.imshow, 3)
  end)
end)

describe("plot", function()
  D.watch(before_each, after_each)

  -- How many pixels of the picture have exactly this colour.
  local function count(image, r, g, b)
    local same = image:eq(tide.tensor({ r, g, b }, { dtype = "uint8" })):all(3)
    return same:sum():item()
  end
  local blue, orange = { 0, 114, 178 }, { 213, 94, 0 }
  local function blues(image) return count(image, table.unpack(blue)) end

  it("is a picture of bytes, which it writes to a file", function()
    local path = os.tmpname()
    local image = tide.plot(D.tensor({ 1, 3, 2 }, "float32"), { path = path, title = "t" })
    D.eq({ 560, 800, 3 }, image:size())
    assert.are.equal("uint8", D.dtype_name(image))
    assert.is_true(tide.equal(image, tide.load_png(path)))
    os.remove(path)
    D.eq({ 200, 300, 3 }, tide.plot({ 1, 2 }, { width = 300, height = 200 }):size())
    assert.are.equal(255, image:select(1, 1):min():item())
  end)

  it("draws the same for tensors of any device and dtype, and for lists", function()
    local want = tide.plot({ 1, 2, 3 }, { 5, 4, 6 })
    for _, dtype in ipairs { "float32", "float64", "int32", "uint8", "float16" } do
      assert.is_true(tide.equal(want, tide.plot(D.tensor({ 1, 2, 3 }, dtype), D.tensor({ 5, 4, 6 }, dtype))), dtype)
    end
    assert.is_true(tide.equal(want, tide.plot({ 5, 4, 6 })))
    assert.is_true(tide.equal(want, tide.plot(D.tensor({ 1, 2, 3 }, "int64"), { 5, 4, 6 })))
    local two = tide.plot { { 1, 2, 3 }, { 3, 1, 2 } }
    assert.is_true(tide.equal(two, tide.plot(D.tensor({ { 1, 3 }, { 2, 1 }, { 3, 2 } }, "float32"))))
    assert.is_true(tide.equal(two, tide.plot { D.tensor({ 1, 2, 3 }, "float32"), { 3, 1, 2 } }))
    assert.is_true(count(two, table.unpack(orange)) > 300 and blues(two) > 300)
  end)

  it("draws a level line across all of the axes, two pixels high, and breaks it at NaN", function()
    local opts = { xlim = { 1, 5 }, ylim = { 0, 1 } }
    local whole = blues(tide.plot({ 0.5, 0.5, 0.5, 0.5, 0.5 }, opts))
    assert.is_true(whole > 650 and whole < 2 * 800)
    local broken = blues(tide.plot({ 0.5, 0.5, 0 / 0, 0.5, 0.5 }, opts))
    assert.is_true(broken > 0.45 * whole and broken < 0.55 * whole)
    assert.are.equal(0, blues(tide.plot({ 5, 5, 5 }, opts))) -- above the axes
    local alone = blues(tide.plot({ 0 / 0, 0.5, 0 / 0 }, opts))
    assert.is_true(alone > 4 and alone < 40)
  end)

  it("leaves no point of a long line out", function()
    local x = tide.zeros(200000)
    x[{ 77777 }] = 1
    local image = tide.plot(x, { ylim = { -0.1, 1.1 } })
    local column = image:eq(tide.tensor(blue, { dtype = "uint8" })):all(3):sum(2)
    assert.is_true(column:gt(0):sum():item() > 380) -- rows with the spike in them
  end)

  it("has logarithmic axes, on which powers are straight and what is not positive is left out", function()
    local opts = { log = "xy", xlim = { 1, 1000 }, ylim = { 1, 1e6 }, width = 500, height = 500 }
    local straight = tide.plot({ 1, 10, 100, 1000 }, { 1, 100, 1e4, 1e6 }, opts)
    assert.is_true(tide.equal(straight, tide.plot({ 1, 1000 }, { 1, 1e6 }, opts)))
    assert.are.equal(0, blues(tide.plot({ 1, 10 }, { 0, -1 }, opts)))
    D.raises("ValueError", tide.plot, { 1, 2 }, { log = "y", ylim = { 0, 1 } })
  end)

  it("draws dots", function()
    local image = tide.plot({ 1, 2 }, { 1, 2 }, { kind = "scatter" })
    local twice = tide.plot({ 1, 1.5, 2 }, { 1, 1.5, 2 }, { kind = "scatter" })
    local function dark(x) return x:to("float32"):sum():item() end
    assert.is_true(dark(twice) < dark(image))
  end)

  it("counts in bins: the heights are the numbers", function()
    local list = {}
    for i = 1, 10 do for _ = 1, i do list[#list + 1] = i - 0.5 end end
    local image = tide.plot(list, { kind = "hist", bins = 10, xlim = { 0, 10 }, ylim = { 0, 10 }, width = 600, height = 600 })
    local filled = image:narrow(1, 1, 556):eq(tide.tensor({ 64, 149, 197 }, { dtype = "uint8" })):all(3):sum(1)
    local seen, last = 0, -1
    for _, n in ipairs(filled:totable()) do
      if n > last + 20 then seen, last = seen + 1, n end
    end
    assert.are.equal(10, seen) -- ten steps up
    D.raises("ValueError", tide.plot, list, { kind = "hist", bins = 0 })
    D.raises("ArgumentError", tide.plot, list, list, { kind = "hist" })
  end)

  it("shows maps of colours with a bar of them", function()
    local x = D.tensor({ { 0, 1 }, { 1, 0 } }, "float32")
    local image = tide.plot(x, { kind = "heat", cmap = "gray", width = 400, height = 300 })
    local black, white = count(image, 0, 0, 0), count(image:narrow(1, 40, 180):narrow(2, 80, 200), 255, 255, 255)
    assert.is_true(black > 25000 and black < 40000, black)
    assert.is_true(white > 15000, white)
    local holes = tide.plot(D.tensor({ { 0, 0 / 0 }, { 0 / 0, 0 } }, "float32"), { kind = "heat", width = 400, height = 300, vmax = 1 })
    assert.is_true(count(holes, 200, 200, 200) > 25000)
    local large = tide.zeros({ 3000, 2000 }, { device = D.dev })
    large:narrow(1, 1501, 1500):fill_(1)
    assert.is_true(tide.equal(tide.plot(large, { kind = "heat", width = 400, height = 300, xlim = { 0, 1 }, ylim = { 0, 1 } }),
      tide.plot(tide.tensor { { 0 }, { 1 } }, { kind = "heat", width = 400, height = 300, xlim = { 0, 1 }, ylim = { 0, 1 } })))
    D.raises("DtypeError", tide.plot, tide.ones({ 2, 2 }, { dtype = "complex64" }), { kind = "heat" })
    D.raises("ArgumentError", tide.plot, { 1, 2 }, { kind = "heat" })
    D.raises("ArgumentError", tide.plot, tide.ones(3), { kind = "heat" })
  end)

  it("names the series in a legend, and has room for words", function()
    local plain, named = tide.plot({ 1, 2 }), tide.plot({ 1, 2 }, { labels = { "a" } })
    assert.is_false(tide.equal(plain, named))
    assert.is_true(tide.equal(tide.plot({ 1, 2 }, { labels = { 16 } }), tide.plot({ 1, 2 }, { labels = { "16" } })))
    D.raises("ArgumentError", tide.plot, { 1, 2 }, { labels = { {} } })
    assert.is_true(blues(named) > blues(plain))
    assert.is_false(tide.equal(plain, tide.plot({ 1, 2 }, { xlabel = "\u{e9}" })))
    assert.is_false(tide.equal(plain, tide.plot({ 1, 2 }, { ylabel = "y" })))
  end)

  it("leaves the same room between a legend's words and each side of its frame", function()
    local function ends(x, dim) -- the first and last place where anything is
      local at = x:any(dim):nonzero()
      return at[1]:item(), at[-1]:item()
    end
    for _, kind in ipairs { "line", "scatter", "hist" } do
      for _, labels in ipairs { { "H" }, { "HHHH" }, { "HH", "HHH" } } do
        local y = { { 1, 2, 3 }, labels[2] and { 1, 2, 2 } }
        local plain, named = tide.plot(y, { kind = kind }):int(), tide.plot(y, { kind = kind, labels = labels }):int()
        local differs, ink = plain:ne(named):any(3), named:sum(3):lt(640)
        local left, right = ends(differs, 1)
        local top, bottom = ends(differs, 2)
        local inside = ink:narrow(1, top + 1, bottom - top - 1):narrow(2, left + 1, right - left - 1)
        local from, to = ends(inside, 1) -- a dot or a bar begins further inside
        local high, low = ends(inside, 2)
        for _, room in ipairs { kind == "line" and from or 9, inside:size(2) + 1 - to, high, inside:size(1) + 1 - low } do
          assert.is_true(room >= 9 and room <= 11, ("%s, %s: %d, %d, %d, %d"):format(kind, labels[1], left, right, top, bottom))
        end
      end
    end
  end)

  it("has sensible ends where there is little or nothing to draw", function()
    local function drawn(list, options)
      options.width, options.height = 200, 150
      local picture = tide.plot(list, options)
      assert.are.same({ 150, 200 }, { picture:size(1), picture:size(2) })
      assert.is_false(tide.equal(picture:min(), picture:max())) -- a frame at least
    end
    for _, list in ipairs { {}, { 3 }, { 0 }, { 5, 5 }, { 0 / 0 }, { 1 / 0, -1 / 0 }, { 1e300, -1e300 }, { 1e-300, 2e-300 }, { 1e15, 1e15 + 1 },
      { 1.7e308, -1.7e308 }, { 0, 5e-324 }, { 5e-324, 5e-324 }, { 5e-324, 1.7e308 } } do
      for _, kind in ipairs { "line", "scatter", "hist" } do
        for _, log in ipairs { "none", "y" } do drawn(list, { kind = kind, log = log }) end
      end
      local map = tide.tensor({ list }, { dtype = "float64" })
      if #list > 0 then drawn(map, { kind = "heat" }) end
    end
  end)

  it("has axes and colours that fall", function()
    local rising = tide.plot({ 1, 2, 2 }, { kind = "hist", bins = 2, xlim = { 0.5, 2.5 } })
    local falling = tide.plot({ 1, 2, 2 }, { kind = "hist", bins = 2, xlim = { 2.5, 0.5 } })
    local area = count(rising, 64, 149, 197)
    assert.is_true(area > 100000 and math.abs(area - count(falling, 64, 149, 197)) < 1000) -- a column of pixels
    assert.is_false(tide.equal(rising, falling))
    local x = D.tensor({ { 0, 1, 1 } }, "float32")
    local image = tide.plot(x, { kind = "heat", cmap = "gray", width = 400, height = 300, vmin = 1, vmax = 0 })
    assert.is_true(tide.equal(image:narrow(1, 40, 180):narrow(2, 80, 200),
      tide.plot(1 - x, { kind = "heat", cmap = "gray", width = 400, height = 300 }):narrow(1, 40, 180):narrow(2, 80, 200)))
    assert.are.equal("@  \n1 to 0\n", x:imshow { text = true, color = "none", cmap = "gray", vmin = 1, vmax = 0 })
  end)

  it("names what is wrong", function()
    D.raises("ArgumentError", tide.plot, 3)
    D.raises("ArgumentError", tide.plot, { 1, "2" })
    D.raises("ArgumentError", tide.plot, { 1, 2 }, { kind = "pie" })
    D.raises("ArgumentError", tide.plot, { 1, 2 }, { color = "red" })
    D.raises("ShapeError", tide.plot, { 1, 2, 3 }, { 1, 2 })
    D.raises("ShapeError", tide.plot, { { 1 }, { 2 } }, { { 1 }, { 2 }, { 3 } })
    D.raises("ShapeError", tide.plot, tide.ones(2, 2, 2))
    D.raises("DtypeError", tide.plot, tide.ones({ 2 }, { dtype = "complex64" }))
    for _, limits in ipairs { { 1, 1 }, { 1 }, { 0 / 0, 1 }, { -1.7e308, 1.7e308 }, { 0, 1e-320 } } do
      D.raises("ValueError", tide.plot, { 1, 2 }, { xlim = limits })
    end
    D.raises("ValueError", tide.plot, tide.ones(2, 2), { kind = "heat", vmin = 0 / 0 })
    D.raises("ValueError", tide.plot, { 1, 2 }, { width = 20 })
    D.raises("ValueError", tide.plot, { 1, 2 }, { width = 100000 })
    D.raises("ValueError", tide.plot, tide.empty(0, 1 << 60)) -- more lines than a picture shows
    D.raises("FileError", tide.plot, { 1, 2 }, { path = "/nowhere/x.png" })
  end)
end)
