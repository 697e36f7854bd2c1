-- What a call of a kernel written in Lua says to one that was not meant so: which kernel it is, what it
-- got and what it takes. What is wrong in a kernel's text stands in kernel_language_spec.lua.

local tide = require "tide"
local D = require "spec.support.device"

local function zeros(...) return tide.zeros({ ... }, { device = D.dev }) end

describe("a call of a kernel", function()
  D.watch(before_each, after_each)
  local twice = tide.kernel("function(i, x, a) x[i] = a * 2 end", { name = "twice" })
  local count = tide.kernel("function(i) return i end", { name = "count" })

  local function says(kind, want, f, ...)
    local e = D.raises(kind, f, ...)
    assert.is_truthy(e.message:find(want, 1, true), e.message .. "\nhas no " .. want)
  end

  it("names the kernel, what it got and what it takes", function()
    local x = zeros(3)
    says("ArgumentError", "kernel: twice: grid: got nothing, expected an integer, or a table of one to three, before the arguments: k(grid, ...)", twice)
    says("ArgumentError", "kernel: twice: grid: got a float32 tensor [3]", twice, x, 1)
    says("ArgumentError", "kernel: twice: grid: got 4 sizes, expected one to three", twice, { 1, 1, 1, 1 }, x, 1)
    says("ValueError", "kernel: twice: grid: got -1, expected at least 0", twice, -1, x, 1)
    says("ArgumentError", "kernel: twice: argument 2: got string 'a', expected a tensor, a number or a boolean", twice, 3, x, "a")
    says("ArgumentError", "kernel: count: got options, expected none: the kernel returns nothing", tide.kernel("function(i, x) x[i] = 1 end", { name = "count" }), 3, x, { out = x })
    D.eq({ 0, 0, 0 }, x)
  end)

  it("refuses rows that are no such vectors or matrices", function()
    local reads, writes = "function(i, p, y) local v = tide.%s(p[i]) y[i] = 1 end", "function(i, p, y) p[i] = tide.%s(%s) y[i] = 1 end"
    for name, n in pairs { vec2 = 2, vec3 = 3, vec4 = 4, quat = 4, mat2 = 2, mat3 = 3, mat4 = 4 } do
      local matrix = name:find "mat"
      local values = table.concat({ 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3 }, ", ", 1, matrix and n * n or n)
      for _, text in ipairs { reads:format(name), writes:format(name, values) } do
        local k, y = tide.kernel(text, { name = name }), zeros(2)
        for _, rows in ipairs(matrix and { { n, n }, { n, n + 1 }, { n + 1, n }, { n - 1, n } } or { { n }, { n - 1 }, { n + 1 }, { 1 } }) do
          local x = zeros(2, table.unpack(rows))
          if #rows > 1 and (rows[1] ~= n or rows[2] ~= n) then
            says("ShapeError", ("%s: p: got %d rows of %d, expected %d of %d, which are a matrix"):format(name, rows[1], rows[2], n, n), k, 2, x, y)
          elseif rows[1] ~= n then
            says("ShapeError", ("%s: p: got rows of %d, expected rows of %d, which are vectors"):format(name, rows[1], n), k, 2, x, y)
            says("ShapeError", "which are vectors", k.on, k, 2, x, y)
          else
            k(2, x, y)
            D.eq({ 1, 1 }, y)
            y:zero_()
            k:on(2, x, y)()
            D.eq({ 1, 1 }, y)
            y:zero_()
          end
          D.eq({ 0, 0 }, y)
        end
      end
    end
    -- One that takes them for several kinds looks itself.
    local k = tide.kernel "function(i, p, y) if y[i] == 0 then y[i] = tide.vec2(p[i]).y else y[i] = tide.vec3(p[i]).z end end"
    local y = zeros(1)
    k(1, zeros(1, 2) + 3, y)
    D.eq({ 3 }, y)
    k(1, zeros(1, 3) + 4, y)
    D.eq({ 4 }, y)
    local kinds = { "tide.vec2(p[i][1]).y", "tide.vec3(p[i][1]).y", "tide.mat2(p[i]):transpose()[1][1]", "tide.mat3(p[i])[1][2]", "tide.quat(p[i][1]).y" }
    for one, first in ipairs(kinds) do
      for two, second in ipairs(kinds) do -- any rows: only the first is read
        if one ~= two then
          k = tide.kernel(("function(i, p, y) if y[i] < 9 then y[i] = %s else y[i] = %s end end"):format(first, second))
          y:zero_()
          k(1, zeros(1, 5, 5) + 4, y)
          D.eq({ 4 }, y)
        end
      end
    end
  end)

  it("refuses options that mean nothing", function()
    local x = zeros(3)
    says("ArgumentError", "kernel: check: got string 'no', expected true or false", tide.kernel, "function(i) return i end", { check = "no" })
    says("ValueError", "kernel: block: got 1 size, expected 2, as the grid has", tide.kernel("function(i, j) return i end", { block = 64 }), { 4, 4 })
    local k = tide.kernel("function(i, x) x[i] = 1 end", { reduce = "sum", name = "all" })
    says("ValueError", "kernel: all: reduce: got a function that returns nothing, expected one that returns what is reduced", k, 3, x)
    D.eq({ 0, 0, 0 }, x)
    k:replace "function(i, x) return x[i] + 2 end"
    assert.are.equal(6, k(3, x):item())
  end)

  it("takes a list behind its arguments for no options", function()
    local x = zeros(3)
    says("ArgumentError", "kernel: twice: argument 2: got table, expected a tensor, a number or a boolean; the last one may be options: {out=}",
      twice, 3, x, { 1, 2, 3 })
    says("ArgumentError", "kernel: count: unknown option 'ot', expected out; the function can use a table of tensors from outside", count, 3, { ot = x })
    D.eq({ 1, 2, 3 }, count(3, {}))
  end)

  it("is bound with a grid, and then takes no arguments", function()
    local x = zeros(3)
    says("ArgumentError", "kernel: twice: grid: got nothing", twice.on, twice)
    local call = twice:on(3, x, 1)
    says("ArgumentError", "kernel: twice: got number 5 for a call that has its arguments, expected none: call() runs it, call:set(n, v)", call, 5)
    says("ArgumentError", "got nil", call, nil)
    D.eq({ 0, 0, 0 }, x)
    call()
    D.eq({ 2, 2, 2 }, x)
    says("ValueError", "kernel: twice: set: got argument 3, expected 1 to 2", call.set, call, 3, 1)
  end)

  it("without tensors runs where its results are to go", function()
    local out = tide.zeros(3, { dtype = tide.int64 })
    assert.are.equal(out, count(3, { out = out }))
    D.eq({ 1, 2, 3 }, out)
    local first = tide.zeros(3)
    local two = tide.kernel "function(i) return i, i / 2 end"
    two(3, { out = { out, first } })
    D.eq({ 0.5, 1, 1.5 }, first)
    local bound = count:on(3, { out = out:zero_() })
    bound()
    D.eq({ 1, 2, 3 }, out)
  end)

  it("without tensors has its results on the current device", function()
    if not D.cuda then return pending "needs a device" end
    assert.are.equal("cuda:0", tostring(count(3).device))
    says("DeviceError", "out: got a tensor on cpu, expected one on cuda:0, where the result is", tide.kernel "function(i, x) return x[i] end", 3,
      zeros(3), { out = tide.zeros(3, { dtype = tide.float64 }) })
  end)

  it("is told about by help(), as are those who make it", function()
    local call = twice:on(3, zeros(3), 1)
    for object, want in pairs { [twice] = "tide.kernel(fn", [call] = "a prebound call: call() runs", [tide.fuse(print)] = "tide.fuse(fn" } do
      assert.is_truthy(tide.help(object):find(want, 1, true), tide.help(object))
    end
  end)

  it("warns once of a kernel that gives nothing", function()
    local _, err, code = D.run { "-e", [[
      local x = tide.zeros(3)
      local k = tide.kernel("function(i, x) local y = x[i] * 2 end", { name = "forgetful" })
      k(3, x)
      k(3, x)
      k({ 3 }, tide.zeros(3, { dtype = tide.int64 }))
      tide.kernel("function(i, x) tide.atomic.add(x, 1, i) end")(3, x)
      tide.kernel("function(i, x) return x[i] end")(3, x)
    ]] }
    assert.are.equal(0, code)
    assert.are.equal("Lua warning: kernel: forgetful: it gives nothing, expected x[i] = v for a tensor, or return v\n", err)
  end)

  it("is found by interpret, which takes a kernel with its options and says at which place Lua raised", function()
    local x = tide.tensor { 1, 2, 4 }
    for _, k in ipairs { tide.kernel(function(i, x) return x[i] end, { reduce = "sum" }), tide.kernel("function(i, x) return x[i] end", { reduce = "sum" }) } do
      assert.are.equal(7, tide.kernel.interpret(k, 3, x):item())
      assert.are.equal(4, tide.kernel.interpret(k, 3, x, { reduce = "max" }):item())
    end
    local ok, e = pcall(tide.kernel.interpret, function(i, j) return i == 2 and j == 3 and (nil).x or 0 end, { 2, 3 })
    assert.matches("attempt to index a nil value .*%(at the place 2, 3%)$", not ok and e)
  end)
end)
