-- Raw kernels whose threads share memory and wait for each other, and what CUDA C has around them.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda
if not D.compiler then return pending "blocks of kernels from C++ text: needs a compiler" end

local one = { grid = 1, block = 1 }

describe("blocks of threads", function()
  D.watch(before_each, after_each)

  it("runs threads that share memory and wait for each other", function()
    local waits = [[
      extern "C" __global__ void reversed(float *x) {
        __shared__ float s[64];
        extern __shared__ float more[];
        s[threadIdx.x] = more[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = (s[63 - threadIdx.x] + more[63 - threadIdx.x]) / 2;
      }]]
    local k, x = cuda.compile_kernel(waits, "reversed"), tide.arange(0, 64, { device = D.dev, dtype = "float32" })
    k({ grid = 1, block = 64, shared_mem = 256 }, x)
    D.eq(tide.arange(0, 64, { dtype = "float32" }):flip(1), x)
    k({ grid = 1, block = 64, shared_mem = 100 << 10 }, x) -- more than a kernel has without asking
    D.eq(tide.arange(0, 64, { dtype = "float32" }), x)
  end)

  it("multiplies matrices by tiles", function()
    local k = cuda.compile_kernel([[
      #define T 16
      extern "C" __global__ void mm(const float *a, const float *b, float *c, int n) {
        __shared__ float sa[T][T], sb[T][T];
        int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < n; k += T) {
          sa[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0;
          sb[threadIdx.y][threadIdx.x] = col < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + col] : 0;
          __syncthreads();
          for (int j = 0; j < T; j++) sum += sa[threadIdx.y][j] * sb[j][threadIdx.x];
          __syncthreads();
        }
        if (row < n && col < n) c[row * n + col] = sum;
      }]], "mm")
    local n = 75
    local a, b = tide.randint(-4, 5, { n, n }):to(D.dev):float(), tide.randint(-4, 5, { n, n }):to(D.dev):float()
    local c = tide.full({ n, n }, 0 / 0, { device = D.dev })
    k({ grid = { 5, 5 }, block = { 16, 16 } }, a, b, c, n)
    D.eq(a:matmul(b), c)
  end)

  it("lets threads end before others wait, and counts those that wait", function()
    local k = cuda.compile_kernel([[
      extern __shared__ __align__(16) double twice[]; // of the launch's size
      typedef int numbers[64];
      template <typename T> __device__ T taken(int i) { __syncthreads(); return (T)twice[i]; }
      template <typename T> __global__ void early(T *x, int n) {
        static __shared__ numbers s;
        volatile __shared__ int unused;
        extern
          __shared__ __align__(16) double more[];
        if (threadIdx.x >= n) return;
        unused = s[threadIdx.x] = threadIdx.x;
        more[threadIdx.x] = 2 * threadIdx.x;
        __syncthreads();
        x[blockIdx.x * 64 + threadIdx.x] = s[n - 1 - threadIdx.x] + taken<T>(n - 1 - threadIdx.x);
        int some = __syncthreads_or(threadIdx.x == 3), all = __syncthreads_and(threadIdx.x < n),
            most = __syncthreads_and(threadIdx.x < n - 1), odd = __syncthreads_count(threadIdx.x & 1);
        if (threadIdx.x == 0) x[blockIdx.x * 64] += 1000 * some + 2000 * all + 4000 * most + 10000 * odd;
      }]], "early<int>")
    for _, n in ipairs { 64, 10, 33 } do
      local x = tide.zeros(5, 64, { device = D.dev, dtype = "int32" })
      k({ grid = 5, block = 64, shared_mem = 512 }, x, n)
      local expected = tide.zeros(5, 64, { dtype = "int32" })
      expected[{ {}, { 1, n } }] = tide.arange(n - 1, -1, -1, { dtype = "int32" }) * 3
      expected[{ {}, 1 }] = (n - 1) * 3 + 3000 + 10000 * (n // 2)
      D.eq(expected, x, 0, n)
    end
  end)

  it("refuses warps where there are none", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    for _, word in ipairs { "__shfl_down_sync(0xffffffff, *x, 1)", "__ballot_sync(0xffffffff, *x > 0)", "__syncwarp()" } do
      local e = D.raises("NotSupportedError", cuda.compile_kernel,
        'extern "C" __global__ void w(float *x) { ' .. word .. "; }", "w")
      assert.is_truthy(e.message:find(word:match "%a[%w_]+", 1, true), e.message)
      assert.is_truthy(e.message:find("warps", 1, true), e.message)
    end
  end)

  it("knows where a thread is in every function, macro and header", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert.is_true(os.execute("mkdir " .. folder))
    local file = assert(io.open(folder .. "/where.h", "w"))
    file:write "__device__ int column() { return threadIdx.x; }\n__device__ void meet() { __syncthreads(); }\n"
    file:close()
    for _, text in ipairs {
      "__device__ int column() { return threadIdx.x; }\n%s",
      "#define column() ((int)threadIdx.x)\n%s",
      "#define PLACE threadIdx.x\n__device__ int column() { return PLACE; }\n%s",
      "struct P { int v; __device__ P() : v(threadIdx.x) {} };\n__device__ int column() { return P().v; }\n%s",
      "__device__ int column();\n%s\n__device__ int column() { return threadIdx.x; }",
      '#include "where.h"\n%s', "#include <where.h>\n#define FLAG meet();\n%s",
    } do
      local k = cuda.compile_kernel(text:format [[
        #ifndef FLAG
        #define FLAG
        #endif
        #if defined(FLAG) && 1
        __global__ void k(int *x, int n) {
          FLAG
          int at = blockIdx.x * blockDim.x + threadIdx.x;
          n += 1, x += n - 1; // each thread has its own
          struct { int y, z; } local = {(int)threadIdx.y, (int)threadIdx.z};
          auto here = [&](int scale) { return scale * column() + 10 * local.y + 100 * local.z + 1000 * threadIdx.x; };
          if (at == n) return;
          atomicAdd(&x[here(1) % 1000], here(1));
        }
        #endif]], "k", { "-I" .. folder })
      local x = tide.zeros(130, { device = D.dev, dtype = "int32" })
      k({ grid = 2, block = { 3, 2, 2 } }, x, 0)
      local expected = {}
      for i = 0, 129 do expected[i + 1] = 0 end
      for z = 0, 1 do
        for y = 0, 1 do
          for c = 0, 2 do
            local times = (c == 1 and 1 or 2) -- one of block 0 has gone
            expected[c + 10 * y + 100 * z + 1] = times * (1001 * c + 10 * y + 100 * z)
          end
        end
      end
      D.eq(expected, x, 0, text)
    end
    os.execute("rm -r " .. folder)
  end)

  it("has the headers of CUDA for 16-bit floats", function()
    local text = [[
      #include <cuda_runtime.h>
      #include <cuda_fp16.h>
      #include "cuda_bf16.h"
      template <class T> __device__ T poly(T x) { T y = x * x + x; y += x; y -= T(1); return -y / x; }
      extern "C" __global__ void small(const __half *x, const __nv_bfloat16 *y, float *out, __half *h, __nv_bfloat16 *b) {
        __half v = x[0], one = __float2half(1.0f);
        __nv_bfloat16 w = y[0];
        out[0] = __half2float(__hadd(v, one)), out[1] = __half2float(__hfma(v, v, one));
        out[2] = __bfloat162float(__hmul(w, w)), out[3] = __hgt(v, one) && v > one && __hlt(one, v);
        __half2 p = __floats2half2_rn(1.5f, 2.5f), q = __hmul2(p, __half2half2(v));
        out[4] = __low2float(q), out[5] = __half22float2(q).y;
        out[6] = __half2int_rz(__float2half(2.75f)), out[7] = __half2float(hsqrt(__float2half(9.0f)));
        out[8] = __bfloat162float(__float2bfloat16(1.0f / 3)), out[9] = __half_as_ushort(one);
        h[0] = poly(v), b[0] = poly(w);
        h[1] = __float2half(65536.0f), b[1] = __float2bfloat16_rn(1e30f);
      }]]
    local options = {}
    local home = os.getenv "CUDA_HOME" or "/usr/local/cuda"
    if io.open(home .. "/include/cuda_fp16.h") then options = { "-I" .. home .. "/include" } end
    local k = cuda.compile_kernel(text, "small", options)
    local x = tide.tensor({ 3 }, { dtype = "float16", device = D.dev })
    local y = tide.tensor({ 5 }, { dtype = "bfloat16", device = D.dev })
    local out = tide.zeros(10, { device = D.dev })
    local h, b = tide.zeros(2, { dtype = "float16", device = D.dev }), tide.zeros(2, { dtype = "bfloat16", device = D.dev })
    k(one, x, y, out, h, b)
    D.eq({ 4, 10, 25, 1, 4.5, 7.5, 2, 3, 0.333984375, 0x3c00 }, out)
    D.eq({ tide.tensor(-14 / 3):half():item(), 1 / 0 }, h)
    D.eq({ tide.tensor(-34 / 5):bfloat16():item(), tide.tensor(1e30):bfloat16():item() }, b)
  end)
end)
