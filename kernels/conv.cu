/* conv.cu: convolutions as matrix products whose right side is never made.
 *
 * tensor_kernel  float16, bfloat16, and float32 as TF32, on tensor cores. The input is first laid out with its channels
 *                innermost, filled up to 16 bytes, and the weights likewise, so that 16 bytes at a time travel to
 * shared memory, three tiles ahead, from wherever the kernel's element says, or zeros where it is outside. tile_kernel
 * the others, in float32 or float64: tiles through shared memory, four by eight sums a thread. plain_kernel   where a
 * group has few results, as where each channel is on its own: a thread for each element.
 *
 * Rows of the product are the results of a group, columns the elements of all images' planes.
 *
 * Invariant: what is summed in what order depends on the sizes alone. */
#include "types.cuh"
#include "tidek.h"

namespace tidek {

constexpr int CONV_THREADS = 256, FEW_RESULTS = 8;
constexpr int TILE_M = 128, TILE_N = 128, TILE_BYTES = 64, STAGES = 3; /* of tensor_kernel; bytes of a row of a tile */
constexpr int SIDE_M = 128, SIDE_N = 64, SIDE_K = 16;                  /* of tile_kernel */

struct ConvArgs {
  void *out;
  const void *x, *w, *bias;
  int64_t m, k, n, plane, in_plane; /* the product of a group; elements of a plane of the result and of the input */
  int64_t channels;                 /* of a group */
  int64_t groups, wide;             /* channels of a group as they are laid out */
  int64_t tiles_m, tiles_n;
  int in[3], kernel[3], stride[3], before[3], dilation[3], up[3];
  Div by_plane, by_row, by_x, by_taps, by_ky, by_kx; /* kx, ky: the kernel's sizes */
};

/* Where a column begins in the input, before the kernel's element is added. */
struct Column {
  int image, at[3];
  bool inside;
  __device__ __forceinline__ Column(const ConvArgs &a, int64_t n) {
    uint32_t rest = (uint32_t)n;
    inside = n < a.n;
    if (!inside) rest = 0;
    uint32_t x, y, z, p = a.by_plane.split(rest);
    image = rest;
    x = a.by_x.split(p), y = a.by_row.split(p), z = p;
    at[0] = (int)z * a.stride[0] - a.before[0];
    at[1] = (int)y * a.stride[1] - a.before[1];
    at[2] = (int)x * a.stride[2] - a.before[2];
  }
  /* The offset of an element of the kernel in a plane of the input, or -1. */
  __device__ __forceinline__ int64_t place(const ConvArgs &a, int kz, int ky, int kx) const {
    int k[3] = {kz, ky, kx}, p[3];
    bool found = inside;
#pragma unroll
    for (int d = 0; d < 3; d++) {
      p[d] = at[d] + k[d] * a.dilation[d];
      if (a.up[d] != 1) {
        int q = p[d] / a.up[d];
        found = found && p[d] >= 0 && q * a.up[d] == p[d];
        p[d] = q;
      }
      found = found && (unsigned)p[d] < (unsigned)a.in[d];
    }
    return found ? ((int64_t)p[0] * a.in[1] + p[1]) * a.in[2] + p[2] : -1;
  }
};

/* The element of the result at a row and a column of group g. */
template <class S, class T>
static __device__ __forceinline__ void conv_store(const ConvArgs &a, int64_t g, int64_t row, int64_t column, T sum) {
  if (row >= a.m || column >= a.n) return;
  uint32_t image = (uint32_t)column, p = a.by_plane.split(image);
  int64_t result = g * a.m + row;
  if (a.bias) sum += cast<T>(((const S *)a.bias)[result]);
  ((S *)a.out)[((int64_t)image * a.groups * a.m + result) * a.plane + p] = cast<S>(sum);
}

/* ---- plain_kernel ---- */

template <class S> __global__ void __launch_bounds__(CONV_THREADS) plain_kernel(const __grid_constant__ ConvArgs a) {
  kernel_begin();
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  int64_t columns = (a.n + CONV_THREADS - 1) / CONV_THREADS, all = columns * a.groups * a.m;
  for (int64_t b = blockIdx.x; b < all; b += gridDim.x) {
    int64_t column = b % columns * CONV_THREADS + threadIdx.x, result = b / columns, g = result / a.m;
    Column c(a, column);
    const S *x = (const S *)a.x + ((int64_t)c.image * a.groups + g) * a.channels * a.in_plane,
            *w = (const S *)a.w + result * a.k;
    T sum = 0;
    for (int kz = 0, tap = 0; kz < a.kernel[0]; kz++)
      for (int ky = 0; ky < a.kernel[1]; ky++)
        for (int kx = 0; kx < a.kernel[2]; kx++, tap++) {
          int64_t at = c.place(a, kz, ky, kx);
          if (at < 0) continue;
          int64_t taps = a.k / a.channels;
          for (int64_t i = 0; i < a.channels; i++) sum += cast<T>(x[i * a.in_plane + at]) * cast<T>(w[i * taps + tap]);
        }
    conv_store<S, T>(a, g, result - g * a.m, column, sum);
  }
}

/* ---- tile_kernel ---- */

template <class S> __global__ void __launch_bounds__(CONV_THREADS) tile_kernel(const __grid_constant__ ConvArgs a) {
  kernel_begin();
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  __shared__ alignas(16) T left[SIDE_K][SIDE_M + 4], right[SIDE_K][SIDE_N];
  int64_t all = a.tiles_m * a.tiles_n * a.groups;
  int t = threadIdx.x, tx = t % 16, ty = t / 16; /* columns 4 * tx, rows 8 * ty */
  for (int64_t b = blockIdx.x; b < all; b += gridDim.x) {
    int64_t m0 = b % a.tiles_m * SIDE_M, rest = b / a.tiles_m, n0 = rest % a.tiles_n * SIDE_N, g = rest / a.tiles_n;
    const S *w = (const S *)a.w + g * a.m * a.k;
    Column c(a, n0 + t % SIDE_N);
    const S *x = (const S *)a.x + ((int64_t)c.image * a.groups + g) * a.channels * a.in_plane;
    T sum[8][4] = {};
    for (int64_t k0 = 0; k0 < a.k; k0 += SIDE_K) {
#pragma unroll
      for (int i = 0; i < SIDE_M * SIDE_K / CONV_THREADS; i++) {
        int64_t row = m0 + t / SIDE_K + i * (CONV_THREADS / SIDE_K), k = k0 + t % SIDE_K;
        left[t % SIDE_K][t / SIDE_K + i * (CONV_THREADS / SIDE_K)] =
            row < a.m && k < a.k ? cast<T>(w[row * a.k + k]) : (T)0;
      }
#pragma unroll
      for (int i = 0; i < SIDE_N * SIDE_K / CONV_THREADS; i++) {
        int row = t / SIDE_N + i * (CONV_THREADS / SIDE_N);
        uint32_t channel = (uint32_t)(k0 + row), tap = 0, kx = 0, ky = 0;
        int64_t at = -1;
        if (k0 + row < a.k) {
          tap = a.by_taps.split(channel), kx = a.by_kx.split(tap), ky = a.by_ky.split(tap);
          at = c.place(a, (int)tap, (int)ky, (int)kx);
        }
        right[row][t % SIDE_N] = at >= 0 ? cast<T>(x[channel * a.in_plane + at]) : (T)0;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < SIDE_K; k++) {
        T u[8], v[4];
#pragma unroll
        for (int i = 0; i < 8; i++) u[i] = left[k][8 * ty + i];
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = right[k][4 * tx + j];
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] += u[i] * v[j];
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) conv_store<S, T>(a, g, m0 + 8 * ty + i, n0 + 4 * tx + j, sum[i][j]);
  }
}

/* ---- tensor_kernel ---- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* float32 as the tensor cores take it: rounded, not cut off. */
static __device__ __forceinline__ half rounded(half x) { return x; }
static __device__ __forceinline__ bfloat16 rounded(bfloat16 x) { return x; }
static __device__ __forceinline__ float rounded(float x) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  return x;
#endif
}

/* out[image][place][group][wide] from in[image][group][channels][place]: tiles of 32 x 32 through shared memory. */
struct LayArgs {
  void *out;
  const void *in;
  int64_t images, places, groups, channels, wide, tiles_p, tiles_c;
};
template <class S> __global__ void __launch_bounds__(256) lay_kernel(const __grid_constant__ LayArgs a) {
  kernel_begin();
  __shared__ S tile[32][33];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int64_t b = blockIdx.x; b < a.images * a.groups * a.tiles_p * a.tiles_c; b += gridDim.x) {
    int64_t p0 = b % a.tiles_p * 32, rest = b / a.tiles_p, c0 = rest % a.tiles_c * 32, plane = rest / a.tiles_c;
    for (int r = y; r < 32; r += 8) {
      bool found = c0 + r < a.channels && p0 + x < a.places;
      tile[r][x] = found ? rounded(((const S *)a.in)[(plane * a.channels + c0 + r) * a.places + p0 + x]) : cast<S>(0.f);
    }
    __syncthreads();
    int64_t image = plane / a.groups, group = plane % a.groups;
    for (int r = y; r < 32; r += 8)
      if (p0 + r < a.places && c0 + x < a.wide)
        ((S *)a.out)[((image * a.places + p0 + r) * a.groups + group) * a.wide + c0 + x] = tile[x][r];
    __syncthreads();
  }
}

static __device__ __forceinline__ void copy_16(uint32_t to, const void *from, bool found) {
#if __CUDA_ARCH__ >= 800
  int bytes = found ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
#endif
}

static __device__ __forceinline__ void load_four(uint32_t (&r)[4], uint32_t from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
#endif
}

#define CONV_MMA(S, what)                                                                                              \
  static __device__ __forceinline__ void multiply(S, float(&c)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1) {  \
    asm volatile("mma.sync.aligned." what " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                      \
  }
#if __CUDA_ARCH__ >= 800
CONV_MMA(half, "m16n8k16.row.col.f32.f16.f16.f32")
CONV_MMA(bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
CONV_MMA(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
#endif

/* Chunk c of 16 bytes of a tile's row: where neighbouring rows' chunks are in other banks. */
static __device__ __forceinline__ uint32_t chunk_at(int row, int c) {
  return (uint32_t)(row * TILE_BYTES + ((c ^ ((row >> 1) & 3)) << 4));
}

template <class S> __global__ void __launch_bounds__(CONV_THREADS) tensor_kernel(const __grid_constant__ ConvArgs a) {
  kernel_begin();
#if __CUDA_ARCH__ >= 800
  constexpr int CHUNK = 16 / sizeof(S), TILE_K = TILE_BYTES / sizeof(S), STAGE = (TILE_M + TILE_N) * TILE_BYTES;
  extern __shared__ __align__(128) char tiles[];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  int64_t b = blockIdx.x, m0 = b % a.tiles_m * TILE_M, rest = b / a.tiles_m, n0 = rest % a.tiles_n * TILE_N,
          g = rest / a.tiles_n;
  int line = t / 4, chunk = t % 4; /* what this thread brings: of lines line and line + 64 of each tile */
  Column c0(a, n0 + line), c1(a, n0 + line + 64);
  const int64_t row = a.groups * a.wide; /* elements of a place of the input */
  const S *x = (const S *)a.x + g * a.wide, *w = (const S *)a.w + g * a.m * a.k;
  const S *w0 = w + (m0 + line) * a.k, *w1 = w0 + 64 * a.k;
  const S *x0 = x + (int64_t)c0.image * a.in_plane * row, *x1 = x + (int64_t)c1.image * a.in_plane * row;
  bool in0 = m0 + line < a.m, in1 = m0 + line + 64 < a.m;
  int64_t k = chunk * CHUNK, channel = k; /* the next chunk of this thread; its channel and the kernel's element */
  int kx = 0, ky = 0, kz = 0;
  uint32_t base = shared_address(tiles);

  auto settle = [&]() { /* the channel is brought back into a place's row */
                        while (channel >= a.wide) {
                          channel -= a.wide;
                          if (++kx == a.kernel[2]) {
                            kx = 0;
                            if (++ky == a.kernel[1]) ky = 0, kz++;
                          }
                        }
  };
  auto bring = [&](int stage) {
    uint32_t to = base + stage * STAGE;
    bool more = k < a.k;
    settle();
    int64_t at0 = more ? c0.place(a, kz, ky, kx) : -1, at1 = more ? c1.place(a, kz, ky, kx) : -1;
    copy_16(to + chunk_at(line, chunk), more && in0 ? w0 + k : w, more && in0);
    copy_16(to + chunk_at(line + 64, chunk), more && in1 ? w1 + k : w, more && in1);
    to += TILE_M * TILE_BYTES;
    copy_16(to + chunk_at(line, chunk), at0 >= 0 ? x0 + at0 * row + channel : x, at0 >= 0);
    copy_16(to + chunk_at(line + 64, chunk), at1 >= 0 ? x1 + at1 * row + channel : x, at1 >= 0);
    k += TILE_K, channel += TILE_K;
  };

  float sum[4][4][4] = {};
  const int64_t steps = (a.k + TILE_K - 1) / TILE_K;
#  pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    bring(s);
    asm volatile("cp.async.commit_group;");
  }
  int stage = 0, next = STAGES - 1;
  for (int64_t step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    bring(next);
    asm volatile("cp.async.commit_group;");
    uint32_t from = base + stage * STAGE;
#  pragma unroll
    for (int half_tile = 0; half_tile < 2; half_tile++) {
      uint32_t u[4][4], v[2][4];
#  pragma unroll
      for (int i = 0; i < 4; i++)
        load_four(u[i], from + chunk_at(warp_m + i * 16 + lane % 16, half_tile * 2 + lane / 16));
#  pragma unroll
      for (int j = 0; j < 2; j++)
        load_four(v[j], from + TILE_M * TILE_BYTES +
                            chunk_at(warp_n + j * 16 + lane / 16 * 8 + lane % 8, half_tile * 2 + lane / 8 % 2));
#  pragma unroll
      for (int i = 0; i < 4; i++)
#  pragma unroll
        for (int j = 0; j < 4; j++) multiply(S{}, sum[i][j], u[i], v[j / 2][j % 2 * 2], v[j / 2][j % 2 * 2 + 1]);
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1, next = next + 1 == STAGES ? 0 : next + 1;
  }
  asm volatile("cp.async.wait_group 0;");
#  pragma unroll
  for (int i = 0; i < 4; i++)
#  pragma unroll
    for (int j = 0; j < 4; j++)
#  pragma unroll
      for (int e = 0; e < 4; e++)
        conv_store<S, float>(a, g, m0 + warp_m + i * 16 + lane / 4 + e / 2 * 8,
                             n0 + warp_n + j * 8 + lane % 4 * 2 + e % 2, sum[i][j][e]);
#endif
}

/* ---- launching ---- */

static int64_t conv_taps(const tide_conv_args *a) { return a->dim[0].kernel * a->dim[1].kernel * a->dim[2].kernel; }
static int64_t conv_inputs(const tide_conv_args *a) { return a->dim[0].in * a->dim[1].in * a->dim[2].in; }
static int64_t conv_columns(const tide_conv_args *a) {
  return a->batch * a->dim[0].out * a->dim[1].out * a->dim[2].out;
}

static int64_t conv_wide(const tide_conv_args *a) {
  int64_t chunk = 16 / dtype_bytes(a->dtype);
  return ceil_div(a->channels / a->groups, chunk) * chunk;
}

/* Do the tensor cores take it? */
static bool conv_tensor(const tide_conv_args *a) {
  int device = 0, major = 0;
  if (a->dtype == TIDE_FLOAT64 || (a->dtype == TIDE_FLOAT32 && !a->tf32) || a->results / a->groups < FEW_RESULTS)
    return false;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major >= 8;
}

static size_t conv_rounded(int64_t elements, int dtype) {
  return (size_t)ceil_div(elements * dtype_bytes(dtype), 256) * 256;
}
static size_t conv_input_bytes(const tide_conv_args *a) {
  return conv_rounded(a->batch * conv_inputs(a) * a->groups * conv_wide(a), a->dtype);
}

template <class S>
static int lay(cudaStream_t stream, void *out, const void *in, int64_t images, int64_t places, int64_t groups,
               int64_t channels, int64_t wide) {
  LayArgs l = {out, in, images, places, groups, channels, wide, ceil_div(places, 32), ceil_div(wide, 32)};
  int64_t blocks = images * groups * l.tiles_p * l.tiles_c;
  return launch(lay_kernel<S>, blocks < 0x7fffffff ? blocks : 0x7fffffff, 256, stream, (const LayArgs)l);
}

template <class S> static int tensor_run(cudaStream_t stream, ConvArgs c, const tide_conv_args *a, void *scratch) {
  void *w = (char *)scratch + conv_input_bytes(a);
  int64_t taps = conv_taps(a), channels = a->channels / a->groups, blocks;
  int rc = lay<S>(stream, scratch, c.x, a->batch, conv_inputs(a), a->groups, channels, c.wide);
  if (!rc) rc = lay<S>(stream, w, c.w, a->results, taps, 1, channels, c.wide);
  if (rc) return rc;
  c.x = scratch, c.w = w, c.k = taps * c.wide;
  c.tiles_m = ceil_div(c.m, TILE_M), c.tiles_n = ceil_div(c.n, TILE_N), blocks = c.tiles_m * c.tiles_n * c.groups;
  return launch_shared(tensor_kernel<S>, blocks, CONV_THREADS, STAGES * (TILE_M + TILE_N) * TILE_BYTES, stream,
                       (const ConvArgs)c);
}

template <class S> static int other_run(cudaStream_t stream, ConvArgs c) {
  if (c.m < FEW_RESULTS) {
    int64_t blocks = ceil_div(c.n, CONV_THREADS) * c.groups * c.m;
    return launch(plain_kernel<S>, blocks < 0x7fffffff ? blocks : 0x7fffffff, CONV_THREADS, stream, (const ConvArgs)c);
  }
  c.tiles_m = ceil_div(c.m, SIDE_M), c.tiles_n = ceil_div(c.n, SIDE_N);
  int64_t blocks = c.tiles_m * c.tiles_n * c.groups;
  return launch(tile_kernel<S>, blocks < 0x7fffffff ? blocks : 0x7fffffff, CONV_THREADS, stream, (const ConvArgs)c);
}

/* Some images: columns are counted in 32 bits. */
static int conv_images(cudaStream_t stream, const tide_conv_args *a, void *scratch) {
  ConvArgs c = {};
  const tide_taps *d = a->dim;
  c.out = a->head.ptr[0], c.x = a->head.ptr[1], c.w = a->head.ptr[2], c.bias = a->head.ptr[3];
  c.groups = a->groups, c.channels = a->channels / a->groups, c.m = a->results / a->groups;
  c.k = c.channels * conv_taps(a), c.n = conv_columns(a), c.plane = c.n / a->batch, c.in_plane = conv_inputs(a);
  c.wide = conv_wide(a);
  for (int i = 0; i < 3; i++) {
    c.in[i] = (int)d[i].in, c.kernel[i] = (int)d[i].kernel, c.stride[i] = (int)d[i].stride;
    c.before[i] = (int)d[i].before, c.dilation[i] = (int)d[i].dilation, c.up[i] = (int)a->up[i];
  }
  c.by_plane = make_div(c.plane), c.by_row = make_div(d[1].out), c.by_x = make_div(d[2].out);
  c.by_taps = make_div(conv_taps(a)), c.by_ky = make_div(d[1].kernel), c.by_kx = make_div(d[2].kernel);
  bool tensor = conv_tensor(a);
  switch (a->dtype) {
  case TIDE_FLOAT16: return tensor ? tensor_run<half>(stream, c, a, scratch) : other_run<half>(stream, c);
  case TIDE_BFLOAT16: return tensor ? tensor_run<bfloat16>(stream, c, a, scratch) : other_run<bfloat16>(stream, c);
  case TIDE_FLOAT32: return tensor ? tensor_run<float>(stream, c, a, scratch) : other_run<float>(stream, c);
  default: return other_run<double>(stream, c);
  }
}

} // namespace tidek

size_t tidek_conv_scratch(const tide_conv_args *a) {
  using namespace tidek;
  if (!conv_tensor(a)) return 0;
  return conv_input_bytes(a) + conv_rounded(a->results * conv_taps(a) * conv_wide(a), a->dtype);
}

int tidek_conv(cudaStream_t stream, const tide_conv_args *a, void *scratch) {
  using namespace tidek;
  int64_t out = a->dim[0].out * a->dim[1].out * a->dim[2].out, in = conv_inputs(a);
  int64_t most = MAX_PIECE / (out > 1 ? out : 1);
  if (most < 1 || in >= 0x7fffffff) return (int)cudaErrorInvalidValue;
  for (int64_t done = 0; done < a->batch; done += most) {
    tide_conv_args part = *a;
    part.batch = a->batch - done < most ? a->batch - done : most;
    part.head.ptr[0] = (char *)a->head.ptr[0] + done * a->results * out * dtype_bytes(a->dtype);
    part.head.ptr[1] = (char *)a->head.ptr[1] + done * a->channels * in * dtype_bytes(a->dtype);
    int rc = conv_images(stream, &part, scratch);
    if (rc) return rc;
  }
  return 0;
}
