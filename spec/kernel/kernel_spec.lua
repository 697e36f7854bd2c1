-- Raw kernels: tide.cuda.compile_kernel.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda
if not D.compiler then return pending "kernels from C++ text: needs a compiler" end

local source = [[
#define FACTOR N
__device__ float twice(float x) { return x * 2; }
extern "C" __global__ void axpy(const float *__restrict__ x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void doubled(const float *x, float *y) { y[threadIdx.x] = twice(x[threadIdx.x]); }
template <typename T> __global__ void scale(T *x, T a, long long n) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * a;
}
extern "C" __global__ void where(int *out) {
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int threads = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(&out[block * threads + thread], block * 1000 + thread);
}
extern "C" __global__ void numbers(double *out, signed char a, unsigned char b, short c, unsigned int d, long long e,
                                   size_t f, bool g, double h) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h;
}
extern "C" __global__ void option(int *out) { *out = FACTOR; }
extern "C" __global__ void nothing() {}
extern "C" __global__ void anything(const void *x, float4 *y, const unsigned short *h, int64_t *n) {}
]]

local function kernel(name, options) return cuda.compile_kernel(source, name, options or { "-DN=7" }) end
local function floats(n, value) return tide.full({ n }, value or 1.0, { device = D.dev, dtype = "float32" }) end
local one = { grid = 1, block = 1 }

-- Memory that another stream used is free only after an event there: the check for leaks comes after this.
local function settle()
  collectgarbage()
  collectgarbage()
  cuda.synchronize_all()
end

describe("compile_kernel", function()
  D.watch(before_each, after_each)

  it("launches a kernel of CUDA C", function()
    local k = kernel "axpy"
    local x, y = tide.arange(0, 1000, { device = D.dev, dtype = "float32" }), floats(1000)
    k({ grid = 4, block = 256 }, x, y, 3, 1000)
    D.eq(x * 3 + 1, y)
    k({ grid = { 4 }, block = { 256, 1, 1 }, shared_mem = 0 }, x, y, 0.5, 500)
    D.eq((x * 3.5 + 1):narrow(1, 1, 500), y:narrow(1, 1, 500))
    D.eq((x * 3 + 1):narrow(1, 501, 500), y:narrow(1, 501, 500))
    assert.are.equal("axpy", k.name)
    assert.are.equal("tide.cuda.Kernel(axpy(const float * x, float * y, float a, int n))", tostring(k))
    assert.are.same({ { name = "x", type = "const float *", read_only = true }, { name = "y", type = "float *",
      read_only = false } }, { k:params()[1], k:params()[2] })
    assert.are.equal(cuda.compile_kernel, cuda._compile_kernel)
    assert.is_truthy(tide.help "compile_kernel":find "__global__")
    assert.is_truthy(tide.help "Kernel:bind":find "without any check")
  end)

  it("takes kernels with C++ names and instances of templates", function()
    local y = floats(8)
    kernel "doubled"({ grid = 1, block = 8 }, floats(8, 3), y)
    D.eq(floats(8, 6), y)
    kernel "scale<float>"({ grid = 1, block = 8 }, y, 2.5, 8)
    D.eq(floats(8, 15), y)
    local i = tide.full({ 8 }, 3, { device = D.dev, dtype = "int32" })
    kernel "scale<int>"({ grid = 1, block = 8 }, i, 4, 8)
    D.eq({ 12, 12, 12, 12, 12, 12, 12, 12 }, i)
    D.raises("DtypeError", kernel "scale<double>", { grid = 1, block = 8 }, y, 2, 8)
    D.raises("ValueError", kernel, "scale")
  end)

  it("reads every parameter of a template, and const ones", function()
    local text = [[
      template <int N, typename T, typename U = int> __global__ void set(T *x, const U *y, const T a, const int n) {
        for (int i = 0; i < n; i++) x[i] = a + T(y[i]) + T(N);
      }]]
    local k = cuda.compile_kernel(text, "set<3, float, short>")
    local x, y = floats(4), tide.full({ 4 }, 2, { device = D.dev, dtype = "int16" })
    k(one, x, y, 0.5, 4)
    D.eq(floats(4, 5.5), x)
    assert.is_truthy(D.raises("DtypeError", k, one, x:double(), y, 1, 4).message:find("float * x", 1, true))
    assert.is_truthy(D.raises("DtypeError", k, one, x, x, 1, 4).message:find("const short * y", 1, true))
    D.raises("ValueError", k, one, x, y, 1, 1.5)
    D.raises("ValueError", cuda.compile_kernel, "template <int N> __global__ void k(float *x) { *x = N; }", "k")
  end)

  it("divides integers by zero without ending the process", function()
    local k = cuda.compile_kernel('extern "C" __global__ void k(int *x, int a, int b) { x[0] = a / b; x[1] %= b; }', "k")
    local x = tide.full({ 2 }, 7, { device = D.dev, dtype = "int32" })
    k(one, x, 9, 4)
    D.eq({ 2, 3 }, x)
    k(one, x, 9, 0)
    if D.cuda and not D.simulated then return pending "the rest is not on a real GPU" end -- any value may come
    D.eq({ 0, 0 }, x)
    local seen = cuda.compile_kernel([[
      struct I { int v; I operator /(I o) const { return I{v / o.v}; } };
      struct B { unsigned a : 4; };
      __device__ int over(int a, int b) { return a / b; }
      extern "C" __global__ void seen(int *x) {
        int n = x[0];
        B b;
        b.a = 9;
        b.a /= n - n;
        x[0] = n / (n - n) + n % 0 + over(n, 0) + b.a;
        x[1] = (I{n} / I{n - n}).v;
        x[1] /= 0, x[1] %= 0;
        x[2] = (int)((__int128)n / (n - n));
        for (int i = 0; i < 2; i++) x[3] = 6 / i;
      }]], "seen")
    local five = tide.full({ 4 }, 5, { device = D.dev, dtype = "int32" })
    seen(one, five)
    D.eq({ 0, 0, 0, 6 }, five)
    local all = cuda.compile_kernel([[
      #define HALF(n) ((n) / 2)
      #if HALF(9) % 3 != 1
      #error the preprocessor divides by itself
      #endif
      struct V { int v; V operator+(V o) const { return V{v + o.v}; } };
      struct B { unsigned a : 4; };
      enum E { ZERO, SEVEN = 7 };
      extern "C" __global__ void all(long long *x, const int *zero, const long long *one) {
        volatile int v = 5;
        B b;
        b.a = 9;
        E none = (E)zero[0];
        unsigned char c = (unsigned char)(200 + zero[0]), d = (unsigned char)zero[1];
        unsigned short s = (unsigned short)zero[1];
        unsigned u = 7;
        unsigned long long w = 7;
        x[0] = 5 / zero[0] + 5 % zero[1] + SEVEN / none + c / d + c % d + (short)c / s + u / (unsigned)zero[0] + w % zero[0];
        x[1] = one[-1] / -one[0] + one[-1] % -one[0] + 9 / zero[2];
        x[2] = (V{b.a / -3} + V{b.a % -4}).v;
        v /= zero[3];
        x[3] = v + (__int128)c / (one[0] + 1);
        x[4] = (w + 14) / (one[0] + 2) * 2 % 4;
      }]], "all")
    local out, zero = tide.full({ 5 }, 1, { device = D.dev, dtype = "int64" }), tide.zeros(4, { device = D.dev, dtype = "int32" })
    local ones = tide.tensor({ math.mininteger, 1 }, { device = D.dev, dtype = "int64" })
    all(one, out, zero, ones:narrow(1, 2, 1))
    D.eq({ 0, math.mininteger, -2, 100, 2 }, out)
  end)

  it("knows the defaults of templates, and every name of an integer", function()
    local text = [[
      template <typename T = float, typename U = T, int N = 3> __global__ void set(T *x, U a, int long unsigned n) {
        for (unsigned long i = 0; i < n; i++) x[i] = T(a) * N;
      }]]
    local x = floats(4)
    local k = cuda.compile_kernel(text, "set<>")
    k(one, x, 0.5, 4)
    D.eq(floats(4, 1.5), x)
    assert.matches("float %* x", D.raises("DtypeError", k, one, x:double(), 1, 4).message)
    cuda.compile_kernel(text, "set<float, short>")(one, x, -2, 4)
    D.eq(floats(4, -6), x)
    D.raises("ValueError", k, one, x, 1, -1)
  end)

  it("reads the parameters of what the preprocessor leaves", function()
    local text = [[
      #ifdef WIDE
      extern "C" __global__ void two(double *x) { *x = 2; }
      #else
      extern "C" __global__ void two(float *x) { *x = 2; }
      #endif]]
    for _, condition in ipairs { "#ifdef WIDE", "#if defined(WIDE) && (WIDE + 1) > 1", "#ifndef __NEVER\n#ifdef WIDE" } do
      local code = text:gsub("#ifdef WIDE", condition) .. (condition:find "NEVER" and "\n#endif" or "")
      for dtype, options in pairs { float32 = {}, float64 = { "-DWIDE" } } do
        local x = tide.zeros(1, { device = D.dev, dtype = dtype })
        cuda.compile_kernel(code, "two", options)(one, x)
        D.eq({ 2 }, x)
      end
    end
    local both = "__global__ void two(double *x) { *x = 2; }\n__global__ void two(float *x) { *x = 2; }"
    assert.matches("line 2: .*several kernels", D.raises("ValueError", cuda.compile_kernel, both, "two").message)
    local broken = D.raises("ValueError", cuda.compile_kernel, text:gsub("2;", "wrong;"), "two").message
    assert.matches("several kernels.*wrong", broken)
  end)

  it("takes the parameters as they are declared, and has the compiler check them", function()
    local text = [[
      typedef float real;
      struct pair { real a, b; };
      #define MAKE(name) extern "C" __global__ void name(real *x, real by, const pair *) { *x *= by; }
      MAKE(made)
      extern "C" __global__ void named(real *x, real by) { *x *= by; }]]
    local x = floats(1, 3)
    D.raises("NotSupportedError", cuda.compile_kernel, text, "named")
    assert.matches("params", D.raises("ValueError", cuda.compile_kernel, text, "made").message)
    local k = cuda.compile_kernel(text, "named", { params = { "float *", "float" } })
    k(one, x, 2)
    D.eq({ 6 }, x)
    assert.are.same({ { name = "x", type = "float *", read_only = false }, { name = "by", type = "float",
      read_only = false } }, k:params())
    k = cuda.compile_kernel(text, "made", { options = { "-DUNUSED" }, params = { "float*", "float", "const pair *" } })
    k(one, x, 0.5, x)
    D.eq({ 3 }, x)
    assert.matches("argument 1 %(float%*%)", D.raises("DtypeError", k, one, x:double(), 1, x).message)
    for _, params in ipairs { { "float *" }, { "float *", "int" }, { "double *", "float" }, {} } do
      D.raises("ValueError", cuda.compile_kernel, text, "named", { params = params })
    end
    D.raises("NotSupportedError", cuda.compile_kernel, text, "named", { params = { "float *", "pair" } })
    assert.matches("params: got float%) x", D.raises("ValueError", cuda.compile_kernel, text, "named",
      { params = { "float *", "float) x; int y(" } }).message)
    assert.matches("params", D.raises("ArgumentError", cuda.compile_kernel, text, "named", { params = "float" }).message)
    assert.matches("params", D.raises("ArgumentError", cuda.compile_kernel, text, "named", { params = { 5 } }).message)
  end)

  it("gives every thread its place", function()
    local out = tide.zeros(2 * 3 * 2 * 4 * 2 * 3, { device = D.dev, dtype = "int32" })
    kernel "where"({ grid = { 2, 3, 2 }, block = { 4, 2, 3 } }, out)
    local expected = {}
    for block = 0, 11 do
      for thread = 0, 23 do expected[#expected + 1] = block * 1000 + thread end
    end
    D.eq(expected, out)
  end)

  it("passes numbers of every type as they are", function()
    local k = kernel "numbers"
    local out = tide.zeros(8, { device = D.dev, dtype = "float64" })
    k(one, out, -128, 255, -32768, 4294967295, -1 << 53, 1 << 53, true, 0.1)
    D.eq({ -128, 255, -32768, 4294967295, -(1 << 53), 1 << 53, 1, 0.1 }, out)
    k(one, out, 5.0, 1, 2, 3, 4, 5, false, 7)
    D.eq({ 5, 1, 2, 3, 4, 5, 0, 7 }, out)
  end)

  it("refuses numbers that do not fit, naming the parameter", function()
    local k = kernel "numbers"
    local good = { 1, 2, 3, 4, 5, 6, true, 8 }
    local out = tide.zeros(8, { device = D.dev, dtype = "float64" })
    local function with(i, value)
      local args = { table.unpack(good) }
      args[i] = value
      return D.raises(type(value) == "number" and "ValueError" or "ArgumentError", k, one, out, table.unpack(args))
    end
    for _, case in ipairs { { 1, 128 }, { 1, -129 }, { 2, 256 }, { 2, -1 }, { 3, 32768 }, { 4, 4294967296 }, { 4, -1 },
      { 5, 1.5 }, { 5, 2 ^ 63 }, { 6, -1 }, { 8, (1 << 53) + 1 }, { 1, 0 / 0 }, { 1, "1" }, { 1, true }, { 8, false },
      { 8, {} } } do
      with(case[1], case[2])
    end
    assert.is_truthy(with(4, 4294967296 + 5).message:find("unsigned int d", 1, true))
    assert.is_truthy(with(8, (1 << 53) + 1).message:find("got 9007199254740993", 1, true))
    D.raises("ArgumentError", k, one, out, 1, 2, 3, 4, 5, 6, 7, 8) -- 7 is no boolean
    local axpy = kernel "axpy"
    local x = floats(4)
    D.raises("ValueError", axpy, one, x, x, (1 << 24) + 1, 4)
    D.raises("ValueError", axpy, one, x, x, 1e39, 4)
    D.raises("ValueError", axpy, one, x, x, 1, (1 << 32) + 5)
    axpy(one, x, x, math.huge, 0)
    axpy(one, x, x, 0.1, 0)
  end)

  it("refuses tensors that do not fit, naming the parameter", function()
    local k = kernel "axpy"
    local x, y = floats(6), floats(6)
    assert.is_truthy(D.raises("DtypeError", k, one, x:double(), y, 1, 6).message:find "float64")
    assert.is_truthy(D.raises("DtypeError", k, one, x, y:int(), 1, 6).message:find("float * y", 1, true))
    D.raises("ValueError", k, one, floats(12):slice(1, 1, -1, 2), y, 1, 6)
    D.raises("ValueError", k, one, x:view(2, 3):t(), y, 1, 6)
    D.raises("ArgumentError", k, one, x, y, y, 6)
    D.raises("ArgumentError", k, one, 1.5, y, 1, 6)
    D.raises("ArgumentError", k, one, "x", y, 1, 6)
    D.raises("ArgumentError", k, one, x, y, 1)
    D.raises("ArgumentError", k, one, x, y, 1, 6, 7)
    D.raises("ArgumentError", k, one, x, y, nil, 6)
    local freed = floats(6)
    freed:free()
    D.raises("StateError", k, one, x, freed, 1, 6)
    if D.cuda then D.raises("DeviceError", k, one, x, tide.ones(6), 1, 6) end
    if D.devices > 1 then D.raises("DeviceError", k, one, x, tide.ones(6, { device = "cuda:1" }), 1, 6) end
    local any = kernel "anything"
    local h, n = tide.zeros(4, { device = D.dev, dtype = "float16" }), tide.zeros(1, { device = D.dev, dtype = "int64" })
    any(one, x, floats(8), h, n)
    any(one, n, 0, h, n)
    D.raises("ValueError", any, one, x, floats(8):narrow(1, 2, 4), h, n) -- 4 bytes off for a float4
    D.raises("DtypeError", any, one, x, floats(8), x, n)
  end)

  it("takes addresses that nobody checks", function()
    local x, y = floats(8, 2), floats(8)
    kernel "axpy"({ grid = 1, block = 8 }, x:data_ptr(), y, 1, 8)
    D.eq(floats(8, 3), y)
    if D.cuda then cuda.synchronize() end
  end)

  it("does nothing in a grid of no blocks", function()
    local x, y = floats(4), floats(4)
    for _, grid in ipairs { 0, { 4, 0 }, { 1, 1, 0 } } do
      kernel "axpy"({ grid = grid, block = 32 }, x, y, 2, 4)
      kernel("axpy"):bind({ grid = grid, block = 32 }, x, y, 2, 4)()
      D.raises("ValueError", kernel "axpy", { grid = grid, block = 2000 }, x, y, 2, 4)
      D.raises("DtypeError", kernel "axpy", { grid = grid, block = 32 }, x:double(), y, 2, 4)
    end
    D.eq({ 1, 1, 1, 1 }, y)
  end)

  it("checks sizes and options", function()
    local k = kernel "nothing"
    k { grid = 1, block = 1 }
    k { grid = { 3, 2 }, block = { 8, 4, 2 } }
    for _, bad in ipairs { { grid = 0, block = 0 }, { grid = 1, block = 0 }, { grid = -1, block = 1 },
      { grid = 1, block = 1025 }, { grid = 1, block = { 32, 33 } }, { grid = 1, block = { 1, 1, 65 } },
      { grid = { 1, 65536 }, block = 1 }, { grid = 1 << 31, block = 1 }, { grid = 1, block = 1, shared_mem = -1 },
      { grid = 1, block = 1, shared_mem = 1 << 40 } } do
      D.raises("ValueError", k, bad)
    end
    for _, bad in ipairs { { block = 1 }, { grid = 1 }, {}, { grid = "1", block = 1 }, { grid = {}, block = 1 },
      { grid = { 1, 1, 1, 1 }, block = 1 }, { grid = 1.5, block = 1 }, { grid = 1, block = 1, blocks = 3 },
      { grid = 1, block = 1, stream = 5 }, { grid = 1, block = 1, shared_mem = "x" } } do
      D.raises("ArgumentError", k, bad)
    end
    local e = D.raises("ArgumentError", k, { grid = { 1, y = 2 }, block = 1 })
    assert.matches("^nothing: grid: got 'y'", e.message)
    e = D.raises("ArgumentError", k, { grid = 1, block = 1, shared_mem = 0 / 0 })
    assert.matches("^nothing: shared_mem: got number %-?nan", e.message)
    e = D.raises("ArgumentError", k, { grid = 1, block = 1, stream = 5 })
    assert.matches("^nothing: stream: got number 5, expected a tide.cuda.Stream", e.message)
    D.raises("ArgumentError", k)
    D.raises("ArgumentError", k, 5)
    D.raises("ArgumentError", function() return k.nonsense end)
    D.raises("ArgumentError", k.bind, 5, one)
  end)

  it("gives options to the compiler", function()
    local out = tide.zeros(1, { device = D.dev, dtype = "int32" })
    kernel "option"(one, out)
    D.eq({ 7 }, out)
    kernel("option", { options = { "-DN=9" } })(one, out)
    D.eq({ 9 }, out)
    local most = {}
    for i = 1, 24 do most[i] = ("-D%s=%d"):format(i < 24 and "A" .. i or "N", i) end
    kernel("option", most)(one, out)
    D.eq({ 24 }, out)
    most[25] = "-DA25"
    assert.matches("got 25, expected at most 24", D.raises("ValueError", kernel, "option", most).message)
    D.raises("ArgumentError", kernel, "option", { optoins = {} })
    D.raises("ArgumentError", kernel, "option", { 5 })
    for key, bad in pairs { typo = { "-DN=2", typo = 1 }, tpyo = { options = { "-DN=2", tpyo = 1 } },
      options = { "-DN=2", options = { "-DN=3" } } } do
      assert.matches("options: got '" .. key .. "'", D.raises("ArgumentError", kernel, "option", bad).message)
    end
    D.raises("ArgumentError", kernel, "option", { options = { typo = 1 } })
    assert.matches("zero byte", D.raises("ValueError", kernel, "option", { "-DN=1\0-DM" }).message)
    D.raises("ArgumentError", kernel, "option", "x")
  end)

  it("makes a kernel anew when a file that it includes has changed", function()
    -- In a program of its own: what other cases have begun to compile would be counted, too. On the CPU it sees no device, for
    -- which a kernel would be made first, and counted.
    local out, err, code = D.run({ "-e", [=[
      local D = require "spec.support.device"
      local cuda = tide.cuda
      local one = { grid = 1, block = 1 }
      local folder = os.tmpname()
      os.remove(folder)
      os.execute(("mkdir -p %s/deep"):format(folder))
      local function write(name, text)
        local f = assert(io.open(folder .. "/" .. name, "w"))
        f:write(text)
        f:close()
      end
      local function run(include)
        local text = include .. "\nextern \"C\" __global__ void number(int *out) { *out = VALUE; }"
        local out = tide.zeros(1, { device = D.dev, dtype = "int32" })
        cuda.compile_kernel(text, "number", { "-I" .. folder })(one, out)
        return out:item()
      end
      local function equal(want, got) if want ~= got then error(("expected %s, got %s"):format(want, got), 2) end end
      local info = cuda.jiterator.cache_info
      write("top.h", '#include "deep/value.h"')
      for i = 1, 2 do
        write("deep/value.h", "#define VALUE " .. i)
        local before = info()
        equal(i, run '#include "top.h"')
        equal(i, run " # include <deep/value.h>")
        equal(i, run('#include "' .. folder .. '/top.h"'))
        if D.cuda and not D.simulated then -- NVRTC knows no such directive
          local ok, e = pcall(run, '#import "top.h"')
          assert(not ok and e.kind == "ValueError" and e.message:find "directive", e)
        else
          equal(i, run '#import "top.h"')
        end
        equal(i, run '#inc\\\nlude /* no.h */ "top.h"')
        equal(i, run '#define NAME "top.h"\n#include NAME')
        local between = info()
        equal(i, run '#include "top.h"') -- nothing has changed
        equal(between.memory_hits + 1, info().memory_hits)
        equal(before.misses + 6, between.misses)
      end
      write("deep/value.h", '#pragma once\n#include "../deep/value.h"\n#define VALUE 3')
      for _, include in ipairs { '#include "top.h"', "/*\n #include NAME\n*/\n#define VALUE 3" } do
        local before = info()
        for _ = 1, 3 do equal(3, run(include)) end
        equal(before.misses + 1, info().misses)
      end
      os.execute("rm -rf " .. folder)]=] }, { env = D.cuda and {} or { TIDE_SIM_DEVICES = "0", CUDA_VISIBLE_DEVICES = "" } })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)

  it("loads a kernel once, also where only the compiler knows what it includes", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    local function libraries()
      local n = 0
      for line in io.lines "/proc/self/maps" do n = n + (line:find("tide-kernel", 1, true) and 1 or 0) end
      return n
    end
    local text = '#define NAME <stdint.h>\n#include NAME\n__global__ void k(int *x) { *x = 5; }'
    cuda.compile_kernel(text, "k")
    D.cache_info()
    local before = libraries()
    assert.is_true(before > 0)
    for _ = 1, 3 do cuda.compile_kernel(text, "k") end
    assert.are.equal(before, libraries())
  end)

  it("tells what is wrong with the source, with its lines", function()
    local e = D.raises("ValueError", cuda.compile_kernel,
      "extern \"C\" __global__ void k(float *x) {\n  int y;\n  x[0] = undefined_name;\n}", "k")
    assert.is_truthy(e.message:find("line 3", 1, true), e.message)
    assert.is_truthy(e.message:find "undefined_name", e.message)
    D.raises("ValueError", cuda.compile_kernel, source, "twice")
    D.raises("ValueError", cuda.compile_kernel, source, "nowhere")
    D.raises("NotSupportedError", cuda.compile_kernel, "struct S {}; __global__ void k(S s) {}", "k")
    D.raises("NotSupportedError", cuda.compile_kernel, "__global__ void k(float &x) {}", "k")
    D.raises("ArgumentError", cuda.compile_kernel, source)
    D.raises("ArgumentError", cuda.compile_kernel, 5, "k")
    D.raises("ArgumentError", cuda.compile_kernel, source, "axpy", {}, 5)
  end)

  it("ends with an error where an assertion fails, and the process goes on", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    local script = [[
      local tide = require "tide"
      local dev = os.getenv "TIDE_DEVICE" == "cuda" and "cuda" or "cpu"
      local k = tide.cuda.compile_kernel([=[ %s
        __global__ void k(int *x, unsigned n) { assert(threadIdx.x < n / 1 %% 9); x[threadIdx.x] = 1; }]=], "k")
      local x = tide.zeros(4, { device = dev, dtype = "int32" })
      k({ grid = 1, block = 4 }, x, 4)
      assert(x:sum():item() == 4)
      local _, e = pcall(function()
        k({ grid = 1, block = 4 }, x, 2)
        if dev ~= "cpu" then tide.cuda.synchronize() end
      end)
      io.write(e.kind, " ", tostring(e.code))
    ]]
    for _, include in ipairs { "", "\n#include <assert.h>\n" } do
      local out, err, code = D.run { "-e", script:format(include) }
      assert.are.equal(0, code, err)
      assert.are.equal(D.cuda and "AcceleratorError 710" or "ValueError nil", out)
      assert.matches("thread: %[2,0,0%] Assertion `threadIdx.x < n / 1 %% 9` failed", err)
    end
  end)

  it("begins a static again that an assertion has ended", function()
    if D.cuda then return pending "is about the CPU alone" end -- nothing runs there after an assertion
    local script = [[
      local tide = require "tide"
      local k = tide.cuda.compile_kernel([=[ __device__ int checked(int n) { assert(n > 0); return n; }
        __global__ void k(int *x, int n) { static int first = checked(n); x[0] = first; }]=], "k")
      for _, n in ipairs { 0, 0, 4, 5 } do
        io.write(select(2, pcall(function()
          local x = tide.zeros(1, { dtype = "int32" })
          k({ grid = 1, block = 1 }, x, n)
          return math.tointeger(x:item())
        end)) == 4 and "4 " or "failed ")
      end
    ]]
    local out, err, code = D.run { "-e", script }
    assert.are.equal(0, code, err)
    assert.are.equal("failed failed 4 4 ", out)
  end)

  it("is ordered with other work, on any stream", function()
    if not D.cuda then return pending "needs a device" end
    local k, s = kernel "axpy", cuda.Stream()
    for _ = 1, 10 do
      local x, y = floats(1000, 2), floats(1000)
      s:wait_stream(cuda.current_stream())
      k({ grid = 4, block = 256, stream = s }, x, y, 1, 1000)
      x:free() -- its block may not serve others before the kernel is done
      local other = floats(1000, 100)
      cuda.current_stream():wait_stream(s)
      D.eq(floats(1000, 3), y)
      other:free()
    end
    if D.devices > 1 then
      local x, y = tide.ones(10, { device = "cuda:1" }), tide.ones(10, { device = "cuda:1" })
      k({ grid = 1, block = 10 }, x, y, 2, 10)
      D.eq(tide.full({ 10 }, 3), y)
      D.raises("DeviceError", k, { grid = 1, block = 10, stream = s }, x, y, 2, 10)
    end
    settle()
  end)
end)

describe("bind", function()
  D.watch(before_each, after_each)

  it("packs a launch that is repeated", function()
    local x, y = floats(100, 2), floats(100)
    local launch = kernel "axpy":bind({ grid = 1, block = 128 }, x, y, 1, 100)
    for _ = 1, 5 do launch() end
    D.eq(floats(100, 11), y)
    D.raises("DtypeError", kernel "axpy".bind, kernel "axpy", one, x:double(), y, 1, 100)
    D.raises("ValueError", kernel "axpy".bind, kernel "axpy", { grid = 1, block = 2000 }, x, y, 1, 100)
  end)

  it("follows memory that is moved because it is shared", function()
    if not D.cuda then return pending "needs a device" end
    local x, y = D.tensor { 1., 2. }, tide.zeros(2, { device = "cuda" })
    local launch, before = kernel "axpy":bind({ grid = 1, block = 2 }, x, y, 1, 2), y:data_ptr()
    launch()
    local handle = y:ipc_handle()
    if D.simulated then assert.are_not.equal(before, y:data_ptr()) end
    launch()
    D.eq({ 2, 4 }, y)
    cuda.tensor_from_ipc(handle)
  end)

  it("keeps its tensors alive", function()
    local y = floats(100)
    local x = floats(100, 5)
    local launch = kernel "axpy":bind({ grid = 1, block = 128 }, x, y, 1, 100)
    x:free()
    local others = {}
    for i = 1, 10 do others[i] = floats(100, 50) end
    launch()
    collectgarbage()
    D.eq(floats(100, 6), y)
  end)

  it("follows the current stream, or stays on its own", function()
    if not D.cuda then return pending "needs a device" end
    local s = cuda.Stream()
    local x, y = floats(100, 2), floats(100)
    local follows = kernel "axpy":bind({ grid = 1, block = 128 }, x, y, 1, 100)
    local stays = kernel "axpy":bind({ grid = 1, block = 128, stream = s }, x, y, 1, 100)
    s:wait_stream(cuda.current_stream())
    cuda.stream(s, function() follows() end)
    stays()
    s:synchronize()
    D.eq(floats(100, 5), y)
    x, y, follows, stays = nil, nil, nil, nil
    settle()
  end)

  it("works in a captured graph", function()
    if not D.cuda or not cuda.CUDAGraph then return pending "needs a device" end
    local x, y = floats(100, 2), floats(100)
    local k = kernel "axpy"
    local g = cuda.CUDAGraph()
    cuda.graph(g, function() k({ grid = 1, block = 128 }, x, y, 1, 100) end)
    for _ = 1, 3 do g:replay() end
    D.eq(floats(100, 7), y)
    g:reset()
    x, y, g = nil, nil, nil
    settle()
  end)
end)
