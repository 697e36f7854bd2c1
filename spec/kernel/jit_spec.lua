-- Functions from C++ text and their cache.

local tide = require "tide"
local D = require "spec.support.device"
local J = tide.cuda.jiterator
if not D.compiler then return pending "functions from C++ text: needs a compiler" end

local function fill(size, dtype, low)
  local x = tide.arange(1, tide.zeros(size):numel() + 1, { device = D.dev }):view(size)
  if low then x = x + low end
  return x:to(dtype or "float32")
end

local scale_add = [[
template <typename T> T helper(T x) { return x * T(2); }  // not the entry: another one follows
/* template <typename T> T comment(T x) { return x; } */
template <typename T>
T scale_add(T x, T y, T alpha) {
  return helper(x) + alpha * y;
}]]

describe("create_jit_fn", function()
  D.watch(before_each, after_each)

  it("calls the last template for every element, scalars by name (JIT-01)", function()
    local f = J.create_jit_fn(scale_add, { alpha = 1.0 })
    local x, y = fill { 3, 4 }, fill({ 3, 4 }, "float32", 10)
    D.eq(x * 2 + y, f(x, y))
    D.eq(x * 2 + y * 3, f(x, y, { alpha = 3 }))
    D.eq(x * 2 + y, f(x, y)) -- the default is back
    assert.are.equal(J.create_jit_fn, J._create_jit_fn)
    assert.are.equal(J.create_multi_output_jit_fn, J._create_multi_output_jit_fn)
    assert.is_truthy(tide.help "create_jit_fn":find "elementwise")
  end)

  it("takes any layout", function()
    local f = J.create_jit_fn(scale_add, { alpha = 0.5 })
    for _, size in ipairs { { 5 }, { 4, 6 }, { 2, 3, 4 }, { 1, 7 }, { 1030 } } do
      local x, y = fill(size), fill(size, "float32", -3)
      local expected = x * 2 + y * 0.5
      for _, a in ipairs(D.layouts(x)) do
        for _, b in ipairs(D.layouts(y)) do
          D.eq(expected, f(a[2], b[2]), 0, a[1] .. " and " .. b[1])
          a[3]() b[3]()
        end
      end
    end
    local x = fill { 3, 4 }
    assert.are.same(x:t():stride(), f(x:t(), x:t()):stride()) -- as every other elementwise result
  end)

  it("broadcasts, and takes 0-d and empty tensors", function()
    local f = J.create_jit_fn(scale_add, { alpha = 1 })
    local x, row, column, one = fill { 3, 4 }, fill { 4 }, fill { 3, 1 }, fill {}
    D.eq(x * 2 + row, f(x, row))
    D.eq(column * 2 + row, f(column, row))
    D.eq(row * 2 + column, f(row, column))
    D.eq(x * 2 + one, f(x, one))
    D.eq(one * 3, f(one, one))
    D.eq(x:narrow(1, 1, 0), f(x:narrow(1, 1, 0), row))
    assert.are.same({ 0, 4 }, f(x:narrow(1, 1, 0), row):size())
    local wide = tide.zeros(2, 3, 1, 5, 1, 2, { device = D.dev }) + fill { 3, 2, 5, 2, 2 }
    D.eq(wide * 2 + fill { 5, 1, 2 }, f(wide, fill { 5, 1, 2 }))
    if D.cuda then D.eq(x * 2 + 5, f(x, tide.tensor(5.0))) end -- a value of the CPU goes along
  end)

  it("computes in the common dtype, 16-bit floats in float32", function()
    local f = J.create_jit_fn "template <typename T> T f(T x, T y) { return x * y + x; }"
    for _, dtype in ipairs(D.dtypes) do
      if dtype ~= "bool" then
        local x = tide.tensor({ 1, 2, 3, 4, 5, 6 }, { dtype = dtype, device = D.dev })
        local got = f(x, x)
        assert.are.equal(dtype, D.dtype_name(got))
        D.eq(x * x + x, got, 0, dtype)
      end
    end
    local h, i, z = fill({ 4 }, "float16"), fill({ 4 }, "int32"), fill({ 4 }, "complex64")
    assert.are.equal("float16", D.dtype_name(f(h, i)))
    assert.are.equal("float32", D.dtype_name(f(h, fill { 4 })))
    assert.are.equal("bfloat16", D.dtype_name(f(h:to "bfloat16", i)))
    assert.are.equal("complex64", D.dtype_name(f(z, i)))
    assert.are.equal("float64", D.dtype_name(f(fill({ 4 }, "float64"), h)))
    assert.are.equal("int64", D.dtype_name(f(i, fill({ 4 }, "int64"))))
    D.eq(h * i + h, f(h, i))
    D.eq(z * i + z, f(z, i))
    -- 1 + 2^-11 is no float16: rounding between the operations would lose it.
    local g = J.create_jit_fn "template <typename T> T g(T x) { return (x + T(0.00048828125)) - x; }"
    D.eq({ 0.00048828125 }, g(tide.tensor({ 1.0 }, { dtype = "float16", device = D.dev })))
    local b = J.create_jit_fn "template <typename T> T b(T x, T y) { return x && !y; }"
    D.eq({ false, true, false }, b(D.tensor { true, true, false }, D.tensor { true, false, false }))
  end)

  it("promotes as tensors with and without dims do, call after call", function()
    local code = "template <typename T> T f(T x, T y) { return x + y; }"
    local function ones(n) return tide.ones(n, { device = D.dev }) end
    local function tenths(...) return tide.full({ ... }, 0.1, { dtype = "float64", device = D.dev }) end
    local calls = { { ones(4), tenths() }, { ones(8):slice(1, 1, -1, 2), tenths(8):slice(1, 1, -1, 2) },
      { ones(4), tenths(4) }, { ones(1), tenths() }, { ones(1), tenths(1) }, { ones {}, tenths() } }
    for first = 1, #calls do
      local f = J.create_jit_fn(code)
      for step = 0, #calls - 1 do
        local x, y = table.unpack(calls[(first + step) % #calls + 1])
        local got = f(x, y)
        assert.are.equal(D.dtype_name(x + y), D.dtype_name(got))
        D.eq(x + y, got)
      end
    end
  end)

  it("divides integers by zero without ending the process", function()
    local f = J.create_jit_fn [[
      #define QUOTIENT(a, b) ((a) / \
        (b))
      template <int N> struct half { enum { value = N / 2 }; };
      template <typename T> T f(T x, T y) {
        T q = x / y /* a / b */, r = x % y, z = x, w = x;
        z /= y + T(0);
        w %= -y * T(-1);
        return q == QUOTIENT(x, y) && q == z && r == w ? q * T(100) + r + T(half<8>::value / 2 - 5 % 3) : T(-1);
      }]]
    for _, dtype in ipairs { "int8", "int16", "int32", "int64" } do
      local x = tide.tensor({ 3, -3, 0, 3 }, { dtype = dtype, device = D.dev })
      local y = tide.tensor({ 3, 2, -1, 0 }, { dtype = dtype, device = D.dev })
      local got = f(x, y):cpu()
      D.eq({ 100, -101, 0 }, got:narrow(1, 1, 3), 0, dtype)
      if not D.cuda or D.simulated then D.eq({ 0 }, got:narrow(1, 4, 1), 0, dtype) end -- on a GPU: any value
    end
    if not D.cuda or D.simulated then
      local g = J.create_jit_fn "template <typename T> T g(T x, T y) { return x / y + x % y; }"
      local least = tide.tensor({ math.mininteger }, { dtype = "int64", device = D.dev })
      D.eq({ math.mininteger }, g(least, tide.full({ 1 }, -1, { dtype = "int64", device = D.dev })))
    end
    if not D.cuda or D.simulated then -- zeros that the compiler can see
      local seen = J.create_jit_fn [[
        #define NONE (4 / 5)
        #if NONE != 0
        #error the preprocessor divides by itself
        #endif
        #define OVER(a, b) (a) / (b)
        template <typename T> T seen(T x) {
          T q = x / (x - x), r = x % (x ^ x), z = x, w = x, m = x / NONE;
          z /= x - x;
          w %= T(0);
          if (x == T(0)) q += T(7) / x;
          return q + r + z + w + m + OVER(x, T(0)) + x / 0 + x % (1 - 1);
        }]]
      for _, dtype in ipairs { "int8", "int32", "int64", "uint8" } do
        D.eq({ 0, 0 }, seen(tide.tensor({ 3, 0 }, { dtype = dtype, device = D.dev })), 0, dtype)
      end
    end
    local own = J.create_jit_fn [[
      template <typename T> struct pair { T a, b; T operator/(pair o) const { return a / o.a - b / o.b; } };
      template <typename T> T own(T x, T y) { return pair<T>{x, y} / pair<T>{y, x}; }]]
    D.eq({ 1.5 }, own(D.tensor { 2. }, D.tensor { 1. }))
    local z = tide.tensor({ 3 }, { dtype = "complex64", device = D.dev })
    D.eq({ 1.5 }, J.create_jit_fn "template <typename T> T c(T x) { T y = x; y /= T(2); return x / y * (x / 4.0f); }"(z):real())
  end)

  it("has the mathematics of CUDA", function()
    local f = J.create_jit_fn [[template <typename T> T f(T x) {
      return exp(-x) + rsqrt(x) + max(x, T(2)) + min(x, T(3)) + abs(-x) + pow(x, T(2)) + normcdf(x) + fmod(x, T(2))
        + log1p(x) + erf(x) + tanh(x) + std::sqrt(x) + sinpi(x) * T(0) + isnan(x) + floor(x);
    }]]
    local x = fill { 5 }:div(4)
    local cpu = x:cpu()
    local expected = (-cpu):exp() + cpu:rsqrt() + cpu:clamp { min = 2 } + cpu:clamp { max = 3 } + cpu + cpu * cpu
      + (cpu / -math.sqrt(2)):erfc() / 2 + cpu:fmod(2) + cpu:log1p() + cpu:erf() + cpu:tanh() + cpu:sqrt() + cpu:floor()
    D.eq(expected, f(x), 2e-6)
    D.eq(expected, f(x:double()), 2e-6)
    local c = J.create_jit_fn "template <typename T> T c(T z) { return std::exp(z) * std::conj(z) + std::abs(z); }"
    local z = tide.tensor({ 0.5, 1, -2 }, { dtype = "complex64", device = D.dev })
    assert.are.equal("complex64", D.dtype_name(c(z)))
    D.eq(z:real():exp() * z:real() + z:real():abs(), c(z):real(), 1e-6)
  end)

  it("takes eight tensors, numbers of all kinds and types of their own", function()
    local f = J.create_jit_fn([[template <typename T>
      T f(T a, T b, T c, T d, T e, T f, T g, T h, int n, double w, bool on, T s) {
        T sum = a + b + c + d + e + f + g + h;
        for (int i = 0; i < n; i++) sum += T(w);
        return on ? sum + s : sum;
      }]], { n = 3, w = 0.5, on = true, s = 100 })
    local x = fill { 4 }
    D.eq(x * 8 + 101.5, f(x, x, x, x, x, x, x, x))
    D.eq(x * 8 + 5, f(x, x, x, x, x, x, x, x, { n = 10, on = false }))
  end)

  it("takes whole numbers for integers, and gives types that it does not know the number as it is", function()
    local x = fill { 3 }
    for _, case in ipairs { { "int", -2147483648, 2147483647 }, { "unsigned char", 0, 255 }, { "const short &", -32768, 32767 } } do
      local f = J.create_jit_fn(("template <typename T> T f(T x, %s n) { return x + T(n); }"):format(case[1]), { n = 1.0 })
      local wide = x:double()
      for k = 2, 3 do D.eq(wide + case[k], f(wide, { n = case[k] })) end
      D.eq(wide + 1, f(wide, { n = true }))
      for _, bad in ipairs { case[2] - 1, case[3] + 1, 1.5, 0 / 0, math.huge, 2 ^ 70 } do
        local e = D.raises("ValueError", f, wide, { n = bad })
        assert.is_truthy(e.message:find(("f: n: .* from %d to %d"):format(case[2], case[3]):gsub("%-", "%%-"), 1), e.message)
      end
    end
    local int = "template <typename T> T f(T x, int n) { return x; }"
    assert.is_truthy(D.raises("ValueError", J.create_jit_fn, int, { n = 0.5 }).message:find "n: got 0.5")
    for _, head in ipairs { "template <typename T, typename U> T f(T x, U a)", "typedef double real; template <typename T> T f(T x, real a)" } do
      D.eq(x * 0.5, J.create_jit_fn(head .. " { return x * T(a); }", { a = 0.5 })(x))
    end
    local flag = J.create_jit_fn("template <typename T> T f(T x, bool on) { return on ? x : -x; }", { on = 0 })
    D.eq(-x, flag(x))
    D.eq(x, flag(x, { on = 0.5 }))
  end)

  it("refuses what it does not understand, and says what", function()
    local x = fill { 3 }
    local f = J.create_jit_fn(scale_add, { alpha = 1 })
    assert.is_truthy(D.raises("ArgumentError", f, x, x, { beta = 2 }).message:find "beta")
    assert.is_truthy(D.raises("ArgumentError", f, x, x, { alpha = "x" }).message:find "alpha")
    D.raises("ArgumentError", f, x, x, { 2 })
    D.raises("ArgumentError", f, x)
    D.raises("ArgumentError", f, x, x, x)
    D.raises("ArgumentError", f, x, 5)
    D.raises("ShapeError", f, x, fill { 4 })
    local freed = fill { 3 }
    freed:free()
    D.raises("StateError", f, x, freed)
    D.raises("ArgumentError", J.create_jit_fn)
    D.raises("ArgumentError", J.create_jit_fn, 5)
    D.raises("ArgumentError", J.create_jit_fn, scale_add, 5)
    D.raises("ArgumentError", J.create_jit_fn, scale_add, { alpha = {} })
    assert.is_truthy(D.raises("ArgumentError", J.create_jit_fn, scale_add, { gamma = 1 }).message:find "gamma")
    for _, code in ipairs { "", "nonsense", "float f(float x) { return x; }", "template <int N> int f(int x) { return N; }",
      "template <typename T> T f(T x", "template <typename T> T f(T x,, T y) { return x; }",
      "template <typename T> struct f { T x; };", "template <typename T> T f() { return T(); }",
      "template <typename T> void f(T x) { }", "template <typename T> T f(T *x) { return *x; }",
      "template <typename T> T f(T a, T b, T c, T d, T e, T f, T g, T h, T i) { return a; }" } do
      D.raises("ValueError", J.create_jit_fn, code)
    end
    if D.devices > 1 then D.raises("DeviceError", f, x, tide.zeros(3, { device = "cuda:1" })) end
    if D.cuda then D.raises("DeviceError", f, x, tide.zeros(3)) end
  end)

  it("tells compile errors with the code's own lines and where it was made", function()
    local here = debug.getinfo(1, "l").currentline + 1
    local f = J.create_jit_fn "template <typename T>\nT broken(T x) {\n  return undefined_name(x);\n}"
    local e = D.raises("ValueError", f, fill { 3 })
    assert.is_truthy(e.message:find("line 3", 1, true), e.message)
    assert.is_truthy(e.message:find "undefined_name", e.message)
    assert.is_truthy(e.message:find("jit_spec.lua:" .. here, 1, true), e.message)
    assert.are.equal("jiterator", e.op)
    D.raises("ValueError", f, fill { 3 }) -- again: nothing half made was kept
    assert.are.equal("jiterator", D.raises("ValueError", J.create_jit_fn, "nonsense").op)
  end)

  it("orders its work like every other operation", function()
    if not D.cuda then return pending "needs a device" end
    local f = J.create_jit_fn(scale_add, { alpha = 1 })
    local s = tide.cuda.Stream()
    local x = fill { 1000 }
    local expected = x * 2 + x
    for _ = 1, 20 do
      s:wait_stream(tide.cuda.current_stream())
      local y
      tide.cuda.stream(s, function() y = f(x, x) end)
      tide.cuda.current_stream():wait_stream(s)
      D.eq(expected, y)
      y:free()
    end
    collectgarbage()
    tide.cuda.synchronize_all() -- what another stream used is free after an event there
    if D.devices > 1 then
      local far = tide.ones(4, { device = "cuda:1" })
      D.eq({ 3, 3, 3, 3 }, f(far, far))
      assert.are.equal("cuda:1", tostring(f(far, far).device))
    end
  end)
end)

it("functions are recorded in graphs, compiled there too", function()
  if not D.cuda then return pending "needs a device" end
  local f = J.create_jit_fn "template <typename T> T in_a_graph(T x) { return x * 2 + 1; }"
  local x, g, y = tide.ones(100, { device = D.dev }), tide.cuda.CUDAGraph()
  tide.cuda.graph(g, function() y = f(x) end)
  x:fill_(5)
  g:replay()
  D.eq(tide.full({ 100 }, 11.0), y)
  g:reset()
end)

describe("create_multi_output_jit_fn", function()
  D.watch(before_each, after_each)

  it("gives several results by reference (JIT-02)", function()
    local f = J.create_multi_output_jit_fn([[template <typename T>
      void f(T x, T y, T k, T &sum, T &difference, T &product) { sum = x + y; difference = x - k * y; product = x * y; }]],
      3, { k = 1 })
    local x, y = fill { 3, 4 }, fill({ 3, 4 }, "float32", 5)
    local a, b, c = f(x, y, { k = 2 })
    D.eq(x + y, a)
    D.eq(x - y * 2, b)
    D.eq(x * y, c)
    assert.are.equal(3, select("#", f(x, y:t():contiguous():t())))
    local one = J.create_multi_output_jit_fn("template <typename T> void f(const T &x, T &y) { y = -x; }", 1)
    D.eq(-x, one(x))
    local eight = J.create_multi_output_jit_fn([[template <typename T> void f(T x, T &a, T &b, T &c, T &d, T &e, T &f, T &g,
      T &h) { a = x; b = x + 1; c = x + 2; d = x + 3; e = x + 4; f = x + 5; g = x + 6; h = x + 7; }]], 8)
    local got = { eight(y) }
    for k = 1, 8 do D.eq(y + (k - 1), got[k]) end
  end)

  it("writes into tensors that are there", function()
    local f = J.create_jit_fn("template <typename T> T f(T x, T y, T k) { return x * k + y; }", { k = 2 })
    local x, y = D.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }):float(), D.tensor({ 10, 20, 30 }):float()
    local expected = x * 3 + y
    local z = tide.zeros(2, 3, { device = D.dev })
    local at = z:data_ptr()
    assert.is_true(rawequal(z, f(x, y, { k = 3, out = z })))
    assert.are.equal(at, z:data_ptr())
    D.eq(expected, z)
    local column = tide.zeros(3, 4, { device = D.dev }) -- of any layout and dtype
    f(x, y, { k = 3, out = column:narrow(2, 2, 2):t() })
    D.eq(expected:t(), column:narrow(2, 2, 2))
    D.eq({ 0, 0, 0 }, column[{ {}, 1 }])
    for _, dtype in ipairs { "float64", "float16", "complex64" } do
      local other = tide.zeros(2, 3, { device = D.dev, dtype = dtype })
      D.eq(expected, f(x, y, { k = 3, out = other }):to "float32")
      assert.are.equal(dtype, tide[dtype] == other.dtype and dtype)
    end
    D.eq(expected, f(x, y, { k = 3, out = tide.empty(0, { device = D.dev }) }))
    local same = x:clone()
    D.eq(expected, f(same, y, { k = 3, out = same }))
    D.eq(expected, same)
    local row = D.tensor({ 1, 2, 3, 4 }):float() -- part of an input
    f(row:narrow(1, 1, 3), y, { k = 0, out = row:narrow(1, 2, 3) })
    D.eq({ 1, 10, 20, 30 }, row)
    D.eq({}, f(x:narrow(1, 3, 0), y, { out = tide.empty(0, 3, { device = D.dev }) }):view(-1))
    D.raises("ShapeError", f, x, y, { out = tide.zeros(3, { device = D.dev }) })
    D.raises("ShapeError", f, x, y, { out = x:narrow(1, 1, 0) })
    D.raises("DtypeError", f, x, y, { out = tide.zeros(2, 3, { device = D.dev, dtype = "int32" }) })
    D.raises("ValueError", f, x, y, { out = tide.zeros(3, { device = D.dev }):expand(2, 3) })
    D.raises("ArgumentError", f, x, y, { out = 5 })
    D.raises("ArgumentError", f, x, y, { out = { z, z } })
    D.raises("ArgumentError", f, x, y, { out = z, kk = 1 })
    if D.cuda then D.raises("DeviceError", f, x, y, { out = tide.zeros(2, 3) }) end
    local closed = tide.zeros(2, 3, { device = D.dev })
    closed:free()
    D.raises("StateError", f, x, y, { out = closed })
    local both = J.create_multi_output_jit_fn("template <typename T> void f(T x, T &y, T &z) { y = -x; z = x + 1; }", 2)
    local a, b = tide.zeros(2, 3, { device = D.dev }), tide.empty(0, { device = D.dev, dtype = "float64" })
    local c, d = both(x, { out = { a, b } })
    assert.is_true(rawequal(a, c) and rawequal(b, d))
    D.eq(-x, a)
    D.eq(x + 1, b:float())
    both(x, { out = { x, a } })
    D.eq(-b:float() + 1, x)
    D.eq(b:float(), a)
    local empty = tide.empty(0, { device = D.dev })
    D.raises("ValueError", both, x, { out = { a, a } })
    D.raises("ShapeError", both, x, { out = { empty, tide.zeros(5, { device = D.dev }) } })
    assert.are.equal(0, empty:numel()) -- an error changes nothing
    local named = J.create_jit_fn("template <typename T> T g(T x, T out) { return x + out; }", { out = 1 })
    D.eq({ 11, 21, 31 }, named(y))
    D.eq({ 15, 25, 35 }, named(y, { out = 5 }))
  end)

  it("refuses a wrong number of results", function()
    local code = "template <typename T> void f(T x, T &y, T &z) { y = z = x; }"
    D.raises("ValueError", J.create_multi_output_jit_fn, code, 1)
    D.raises("ValueError", J.create_multi_output_jit_fn, code, 3)
    D.raises("ValueError", J.create_multi_output_jit_fn, code, 0)
    D.raises("ValueError", J.create_multi_output_jit_fn, code, 9)
    D.raises("ArgumentError", J.create_multi_output_jit_fn, code, "2")
    D.raises("ArgumentError", J.create_multi_output_jit_fn, code)
    D.raises("ArgumentError", J.create_multi_output_jit_fn, code, 2, {}, 5)
  end)
end)

it("functions and kernels outlive a reset of the devices", function()
  if not D.cuda then return pending "needs a device" end
  local script = os.tmpname()
  local f = assert(io.open(script, "w"))
  f:write [[
    local tide = require "tide"
    local f = tide.cuda.jiterator.create_jit_fn("template <typename T> T f(T x) { return x + 1; }")
    local k = tide.cuda.compile_kernel('extern "C" __global__ void k(float *x) { *x += 1; }', "k")
    local one, x = { grid = 1, block = 1 }, tide.zeros(1, { device = "cuda" })
    local bound = k:bind(one, x)
    bound()
    k(one, f(x))
    tide.cuda.device_reset()
    assert(not pcall(f, x) and not pcall(k, one, x) and not pcall(bound))
    local y = f(tide.zeros(1, { device = "cuda" }))
    k(one, y)
    assert(y:item() == 2)
    assert(f(tide.zeros(1)):item() == 1)
  ]]
  f:close()
  local out, err, code = D.run { script }
  os.remove(script)
  assert.are.equal("", out .. err)
  assert.are.equal(0, code)
end)

-- ---- the cache: in processes of their own, with a folder of their own ----

local function folder()
  local path = os.tmpname()
  os.remove(path)
  return path
end

local program = [[
local tide = require "tide"
local dev = os.getenv "TIDE_DEVICE" == "cuda" and "cuda" or "cpu"
local J = tide.cuda.jiterator
local f = J.create_jit_fn("template <typename T> T f(T x, T y) { return x + y * 3; }")
local x = tide.ones(2000, { device = dev })
assert(f(x, x):sum():item() == 8000)
local i = J.cache_info()
print(i.hits, i.misses, i.stored, i.damaged, i.compiler_opened)
]]

local function start(path, env)
  local all = { TIDE_KERNEL_CACHE_PATH = path }
  for k, v in pairs(env or {}) do all[k] = v end
  local out, err, code = D.run({ "-e", program }, { env = all })
  assert(code == 0, out .. err)
  return out:gsub("%s+", " "), err
end

local function files(path)
  local out = {}
  for name in io.popen("ls " .. path .. " 2>/dev/null"):lines() do out[#out + 1] = name end
  return out
end

local function entry(path)
  for _, name in ipairs(files(path)) do
    if name:match "%.kernel$" then return path .. "/" .. name end
  end
end

local function rewrite(path, change)
  local f = assert(io.open(path, "rb"))
  local bytes = f:read "a"
  f:close()
  f = assert(io.open(path, "wb"))
  f:write(change(bytes))
  f:close()
end

describe("the kernel cache", function()
  local path
  before_each(function() path = folder() end)
  after_each(function() os.execute("rm -rf " .. path) end)

  it("keeps kernels on disk: a warm start opens no compiler", function()
    assert.are.equal("0 1 1 0 true ", (start(path)))
    assert.are.equal("1 0 0 0 false ", (start(path)))
    assert.are.equal(2, #files(path)) -- the kernel, and what is known of the compiler
  end)

  it("finds it in memory when the same code comes again", function()
    local before = D.cache_info()
    local code = "template <typename T> T again(T x) { return x + " .. math.random(1 << 40) % 100000 .. "; }"
    J.create_jit_fn(code)(fill { 3 })
    local between = J.cache_info()
    J.create_jit_fn(code)(fill { 3 })
    local after = J.cache_info()
    assert.are.equal(before.memory_hits, between.memory_hits)
    assert.are.equal(between.memory_hits + 1, after.memory_hits)
    assert.are.equal(between.misses, after.misses)
  end)

  it("is filled ahead of the first call where a GPU is in use", function()
    local ahead = [[
      local tide = require "tide"
      local J = tide.cuda.jiterator
      local x = tide.ones(2000, { device = os.getenv "TIDE_DEVICE" == "cuda" and "cuda" or "cpu" })
      local f = J.create_jit_fn("template <typename T> T f(T x) { return x + 3; }")
      local never_called = J.create_jit_fn("template <typename T> T f(T x) { return broken; }")
      local before = J.cache_info()
      os.execute "sleep 0.5"
      assert(f(x):sum():item() == 8000)
      local i = J.cache_info()
      print(before.misses, i.misses, i.ahead, i.stored)
    ]]
    local function counts(env)
      env.TIDE_KERNEL_CACHE_PATH = path
      local out, err, code = D.run({ "-e", ahead }, { env = env })
      assert(code == 0, out .. err)
      assert.are.equal("", err)
      return (out:gsub("%s+", " "))
    end
    local real = D.cuda and not D.simulated
    assert.are.equal("0 1 0 1 ", counts { TIDE_KERNEL_AHEAD = "0" })
    assert.are.equal("0 0 0 0 ", counts {}) -- it is there
    os.execute("rm -rf " .. path)
    assert.are.equal(real and "0 1 1 1 " or "0 1 0 1 ", counts {})
    assert.are.equal(2, #files(path)) -- what nobody called is not kept
  end)

  it("is switched off by TIDE_KERNEL_CACHE=0, and does without a folder", function()
    assert.are.equal("0 1 0 0 true ", (start(path, { TIDE_KERNEL_CACHE = "0" })))
    assert.is_nil(entry(path))
    assert.are.equal("0 1 0 0 true ", (start "/dev/null/nowhere"))
    assert.are.equal("0 1 1 0 true ", (start("", { XDG_CACHE_HOME = path })))
    assert.is_truthy(entry(path .. "/tide/kernels"))
    assert.are.equal("0 1 1 0 true ", (start("", { XDG_CACHE_HOME = "here", HOME = path }))) -- must begin at the root
    assert.is_truthy(entry(path .. "/.cache/tide/kernels"))
  end)

  it("makes damaged entries again, with one warning", function()
    start(path)
    local size
    for _, damage in ipairs {
      function(b) size = #b return b:sub(1, #b // 2) end,
      function() return "" end,
      function(b) return b .. "x" end,
      function(b) return b:sub(1, 700) .. string.char(b:byte(701) ~ 1) .. b:sub(702) end,
      function(b) return b:sub(1, 20) .. string.char(b:byte(21) ~ 128) .. b:sub(22) end,
      function(b) return b:sub(1, 45) .. string.char(b:byte(46) ~ 4) .. b:sub(47) end,
      function(b) return ("z"):rep(#b) end,
    } do
      rewrite(entry(path), damage)
      local out, err = start(path)
      assert.are.equal("0 1 1 1 true ", out)
      local _, warnings = err:gsub("damaged entry", "")
      assert.are.equal(1, warnings)
      assert.are.equal("1 0 0 0 false ", (start(path)))
    end
  end)

  it("does not wait for what is no file in the place of an entry", function()
    start(path)
    local name = entry(path)
    os.remove(name)
    assert(os.execute("mkfifo " .. name))
    assert.are.equal("0 1 1 0", (start(path)):match "^%d+ %d+ %d+ %d+")
    assert.are.equal("1 0 0 0 false ", (start(path)))
  end)

  it("leaves files of others in its folder alone", function()
    local hex = ("0123456789abcdef"):rep(2)
    local own = { "new.71.0.1700000000", hex .. ".kernel" }
    local others = { "mine.kernel", "compiler.txt", "new.idea", "new.1.2", "new.1.2.3.bak", hex .. "0.kernel",
      hex:upper() .. ".kernel", "compiler.c++.old" }
    os.execute("mkdir " .. path)
    for _, name in ipairs(others) do os.execute(("touch -d '2 days ago' %s/%s"):format(path, name)) end
    for _, name in ipairs(own) do os.execute(("touch -d '2 days ago' %s/%s"):format(path, name)) end
    start(path) -- sweeps what was never finished
    assert.are.equal(#others + 3, #files(path))
    local out, err = D.run({ "-e", "require 'tide'.cuda.jiterator.cache_clear()" }, { env = { TIDE_KERNEL_CACHE_PATH = path } })
    assert.are.equal("", out .. err)
    table.sort(others)
    local left = files(path)
    table.sort(left)
    assert.are.same(others, left)
  end)

  it("makes a new kernel for another compiler", function()
    start(path)
    local record
    for _, name in ipairs(files(path)) do
      if name:match "^compiler" then record = path .. "/" .. name end
    end
    rewrite(record, function(b) return b:gsub("\n([^\n]*)\n$", "\n%1 of another day\n") end)
    assert.are.equal("0 1 1 0", (start(path)):match "^%d+ %d+ %d+ %d+")
    rewrite(record, function() return "nonsense" end) -- asked again: it is the first compiler
    assert.are.equal("1 0 0 0 true ", (start(path)))
  end)

  it("asks again which compiler it is where another one is named, and again where none is", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    local own = os.tmpname()
    rewrite(own, function()
      return "#!/bin/sh\ncase \"$*\" in --version) echo another compiler 1.0 ;; *) exec c++ \"$@\" ;; esac\n"
    end)
    os.execute("chmod +x " .. own)
    local counts = {}
    for i, compiler in ipairs { "", own, own, "", own } do
      counts[i] = (start(path, { TIDE_CXX = compiler })):match "^%d+ %d+ %d+ %d+"
    end
    os.remove(own)
    assert.are.same({ "0 1 1 0", "0 1 1 0", "1 0 0 0", "1 0 0 0", "1 0 0 0" }, counts)
  end)

  it("serves many processes at once, some of which are killed", function()
    local script = path .. ".lua"
    local f = assert(io.open(script, "w"))
    f:write(program)
    f:close()
    local command = ("TIDE_KERNEL_CACHE_PATH=%s %s %s"):format(path, D.quote(D.runner), script)
    local all = {}
    for i = 1, 24 do
      all[i] = i % 4 == 0 and ("(timeout -s KILL 0.%02d %s >/dev/null 2>&1; true) &"):format(5 * i % 100, command)
        or ("(%s >/dev/null 2>>%s.err || echo failed >>%s.err) &"):format(command, script, script)
    end
    os.execute(table.concat(all, "\n") .. "\nwait")
    local said = io.open(script .. ".err"):read "a"
    os.remove(script)
    os.remove(script .. ".err")
    assert.are.equal("", said)
    assert.are.equal("1 0 0 0 false ", (start(path)))
  end)

  it("says what to install where there is no compiler", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    local out, err, code = D.run({ "-e", program }, { env = { TIDE_KERNEL_CACHE_PATH = path, PATH = "/nowhere" } })
    assert.are_not.equal(0, code)
    assert.is_truthy((out .. err):find "g%+%+ or clang")
    start(path)
    assert.are.equal("1 0 0 0 false ", (start(path, { PATH = "/nowhere" }))) -- what is made needs none
  end)
end)
