-- How tensors are printed: torch's style.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf = 0 / 0, math.huge
local function shows(want, x) assert.are.equal(want, tostring(x)) end

describe("printing", function()
  it("of integers", function()
    shows("tensor([1, 2, 3])", tide.tensor { 1, 2, 3 })
    shows("tensor([  1, -20, 300])", tide.tensor { 1, -20, 300 })
    shows("tensor([[1, 2, 3]])", tide.tensor { { 1, 2, 3 } })
    shows("tensor(7)", tide.tensor(7))
  end)

  it("of floats that are whole", function()
    shows("tensor([1., 2.])", tide.tensor { 1., 2. })
    shows("tensor([[-5., -5.],\n        [-5., -5.]])", tide.full({ 2, 2 }, -5.))
    shows("tensor(3.)", tide.tensor(3.))
    shows("tensor([1., nan])", tide.tensor { 1., nan })
    shows("tensor([1., inf, -inf])", tide.tensor { 1., inf, -inf })
    shows("tensor([0., -0.])", tide.tensor { 0., -0. })
  end)

  it("of other floats: four decimals, aligned", function()
    shows("tensor([[0.3000, 0.3000],\n        [0.3000, 0.3000],\n        [0.3000, 0.3000]])", tide.full({ 3, 2 }, 0.3))
    shows("tensor([ 1.5000, -2.2500, 10.0000])", tide.tensor { 1.5, -2.25, 10. })
    shows("tensor([0.5000,    nan,    inf])", tide.tensor { 0.5, nan, inf })
    shows("tensor(0.3000)", tide.tensor(0.3))
  end)

  it("in scientific form when the range is wide", function()
    shows("tensor([1.0000e+00, 2.0000e+03])", tide.tensor { 1., 2000. })
    shows("tensor([1.5000e+00, 1.0000e+04])", tide.tensor { 1.5, 10000. })
    shows("tensor([1.0000e-05])", tide.tensor { 1e-5 })
    shows("tensor([2.0000e+08])", tide.tensor { 2e8 })
  end)

  it("of booleans", function()
    shows("tensor([ True, False])", tide.tensor { true, false })
    shows("tensor(True)", tide.tensor(true))
  end)

  it("of complex numbers", function()
    shows("tensor([1.+2.j, 3.-4.j])", tide.complex(tide.tensor { 1., 3. }, tide.tensor { 2., -4. }))
    shows("tensor([0.5000+2.j])", tide.complex(tide.tensor { 0.5 }, tide.tensor { 2. }))
  end)

  it("names the dtype when it is not the default of the values", function()
    shows("tensor([1, 2], dtype=tide.int32)", tide.tensor({ 1, 2 }, { dtype = tide.int32 }))
    shows("tensor([1., 2.], dtype=tide.float64)", tide.tensor({ 1., 2. }, { dtype = tide.float64 }))
    shows("tensor([1.5000], dtype=tide.float16)", tide.tensor({ 1.5 }, { dtype = tide.float16 }))
    shows("tensor([255], dtype=tide.uint8)", tide.tensor({ 255 }, { dtype = tide.uint8 }))
  end)

  it("of nothing", function()
    shows("tensor([])", tide.empty(0))
    shows("tensor([], size=(0, 3))", tide.empty(0, 3))
    shows("tensor([], dtype=tide.int64)", tide.empty(0, { dtype = tide.int64 }))
    shows("tensor([], size=(2, 0), dtype=tide.int64)", tide.empty(2, 0, { dtype = tide.int64 }))
  end)

  it("of three dimensions", function()
    shows("tensor([[[1, 2],\n         [3, 4]],\n\n        [[5, 6],\n         [7, 8]]])", tide.range(8):view(2, 2, 2))
  end)

  it("breaks long lines", function()
    local lines = {}
    for line in tostring(tide.arange(100)):gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.are.equal("tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,", lines[1])
    assert.are.equal("        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,", lines[2])
    assert.are.equal(6, #lines)
  end)

  it("summarises what is large", function()
    shows("tensor([   0,    1,    2,  ...,  998,  999, 1000])", tide.arange(1001))
    shows(table.concat({
      "tensor([[0., 0., 0.,  ..., 0., 0., 0.],",
      "        [0., 0., 0.,  ..., 0., 0., 0.],",
      "        [0., 0., 0.,  ..., 0., 0., 0.],",
      "        ...,",
      "        [0., 0., 0.,  ..., 0., 0., 0.],",
      "        [0., 0., 0.,  ..., 0., 0., 0.],",
      "        [0., 0., 0.,  ..., 0., 0., 0.]])",
    }, "\n"), tide.zeros(100, 100))
    assert.is_true(#tostring(tide.zeros(1):expand(1000000000)) < 200)
  end)

  it("follows set_printoptions", function()
    local ok, e = pcall(function()
      tide.set_printoptions { precision = 2 }
      shows("tensor([0.33])", tide.tensor { 1 / 3 })
      tide.set_printoptions { precision = 4, threshold = 5, edgeitems = 1 }
      shows("tensor([0,  ..., 9])", tide.arange(10))
      tide.set_printoptions { threshold = 1000, edgeitems = 3, linewidth = 20 }
      shows("tensor([0, 1, 2, 3,\n        4, 5])", tide.arange(6))
      tide.set_printoptions { linewidth = 80, sci_mode = true }
      shows("tensor([1.5000e+00])", tide.tensor { 1.5 })
      tide.set_printoptions { sci_mode = false }
      shows("tensor([    0.0000, 10000.0000])", tide.tensor { 1e-5, 1e4 })
    end)
    tide.set_printoptions { precision = 4, threshold = 1000, edgeitems = 3, linewidth = 80 }
    assert.is_true(ok, tostring(e))
    D.raises("ArgumentError", tide.set_printoptions, { sci_mode = "no" })
    D.raises("ArgumentError", tide.set_printoptions, { precison = 2 })
    D.raises("ValueError", tide.set_printoptions, { precision = -1 })
  end)

  it("of a freed tensor does not fail", function()
    local x = tide.zeros(2)
    x:free()
    assert.is_string(tostring(x))
  end)

  if D.cuda then
    it("names the device", function()
      shows("tensor([[-5., -5.],\n        [-5., -5.],\n        [-5., -5.]], device='cuda:0')",
        tide.empty(2, { device = "cuda" }):new_full({ 3, 2 }, -5))
      shows("tensor([1], device='cuda:0', dtype=tide.int8)", tide.tensor({ 1 }, { dtype = "int8", device = "cuda" }))
      shows("tensor([], device='cuda:0', size=(0, 2))", tide.empty(0, 2, { device = "cuda" }))
    end)

    it("of a large tensor copies little", function()
      local x = tide.zeros(1, { device = "cuda" }):expand(1000000000)
      assert.is_truthy(tostring(x):find("...", 1, true))
    end)
  end
end)
