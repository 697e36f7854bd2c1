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

  it("is what a terminal can show", function()
    local line = "tide.tensor({{0, 1}}):imshow()"
    local out = D.run({ "-e", "local tide = require 'tide' " .. line }, { env = { COLORTERM = "truecolor", TERM = "xterm-256color" } })
    assert.are.equal(".%\n0 to 1\n", out) -- a pipe
    for term, want in pairs { xterm = "%.%%\r\n0 to 1", ["xterm-256color"] = "38;5;%d+m", dumb = "%.%%\r\n0 to 1" } do
      local said = terminal.session({ line .. "\r", { expect = "0 to 1" }, terminal.settle, "\4" }, { term = term, env = { COLORTERM = "" } })
      assert.matches(want, said)
    end
    local said = terminal.session({ line .. "\r", { expect = "0 to 1" }, terminal.settle, "\4" }, { term = "xterm-256color", env = { COLORTERM = "truecolor" } })
    assert.matches("38;2;68;1;84m", said)
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
