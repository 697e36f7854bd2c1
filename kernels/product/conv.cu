/* conv.cu: convolutions as matrix products whose right side is never made.
 *
 * The input is first laid out with its channels innermost, filled up to 16 bytes, and the weights likewise, so that 16
 * bytes at a time travel to shared memory, tiles ahead, from wherever the kernel's element says, or zeros where it is
 * outside. Where there are few channels, those of a whole row of the kernel lie together, so that little is filled up.
 *
 * conv_hopper.cu  float16, bfloat16, and float32 as TF32, on Hopper's tensor cores.
 * tile_kernel     the same on the tensor cores of all GPUs since Ampere, and float32 and float64 as they are.
 * depthwise.cu    where a group has one channel, for the usual kernels.
 * plain_kernel    where a group has few results: a thread for each element of the result, nothing is laid out.
 *
 * Rows of the product are the results of a group, columns the elements of all images' planes.
 *
 * Invariant: what is summed in what order depends on the sizes and the GPU's kind alone. */
#include "conv.cuh"

namespace tidek {

constexpr int CONV_THREADS = 256, FEW_RESULTS = 8;
constexpr int TILE_BYTES = 64, STAGES = 4;         /* bytes of a row of a tile */
constexpr int64_t LAID_BYTES = (int64_t)512 << 20; /* of the input at a time, unless an image has more */

/* Where a column begins in the input, before the kernel's element is added. */
struct Column {
  int image, at[3];
  bool inside;
  Column() = default;
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
    TIDEK_EACH(d, 3) {
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
  const int taps = a.kernel[0] * a.kernel[1] * a.kernel[2];
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
          for (int64_t i = 0; i < a.channels; i++) sum += cast<T>(x[i * a.in_plane + at]) * cast<T>(w[i * taps + tap]);
        }
    conv_store<S, T>(a, g, result - g * a.m, column, sum);
  }
}

/* ---- laying out ---- */

/* float32 as the tensor cores take it: rounded, not cut off. */
template <class S> static __device__ __forceinline__ S rounded(S x, bool tf32) {
  if constexpr (std::is_same<S, float>::value) {
#if __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return tf32 ? __uint_as_float(bits) : x;
#endif
  }
  return x;
}

/* out[group][image][place][wide] from in[image][group][channels][place]. */
struct LayArgs {
  void *out;
  const void *in;
  int64_t places;
  uint32_t images, groups, channels, words, tiles; /* words: of a place in out */
  int tf32;
  Div by_p, by_c, by_group; /* tiles along places and channels; groups */
};
/* A tile is 64 places of 32 words of channels: those of 16 bits go in pairs. EVEN: places may be read in pairs. */
template <class S, bool EVEN> __global__ void __launch_bounds__(256) lay_kernel(const __grid_constant__ LayArgs a) {
  kernel_begin();
  using W = typename std::conditional<sizeof(S) == 8, uint64_t, uint32_t>::type;
  constexpr uint32_t EACH = sizeof(W) / sizeof(S);
  __shared__ W tile[64][33];
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (uint32_t b = blockIdx.x; b < a.tiles; b += gridDim.x) {
    uint32_t plane = b, p_tile = a.by_p.split(plane), c_tile = a.by_c.split(plane), image = plane;
    const uint32_t group = a.by_group.split(image), c0 = (c_tile * 32 + warp) * EACH;
    const int64_t p0 = (int64_t)p_tile * 64, p = p0 + 2 * lane, left = a.places - p;
    const S *in = (const S *)a.in + ((int64_t)plane * a.channels + c0) * a.places + p;
    S v[4][EACH][2];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
#pragma unroll
      for (uint32_t e = 0; e < EACH; e++) {
        const S *from = in + (i * 8 * EACH + e) * a.places;
        v[i][e][0] = v[i][e][1] = cast<S>(0.f);
        if (c0 + i * 8 * EACH + e >= a.channels || left <= 0) continue;
        if constexpr (EVEN) {
          Pack<S, 2> two = Pack<S, 2>::load(from);
          v[i][e][0] = two.v[0], v[i][e][1] = two.v[1];
        } else {
          v[i][e][0] = from[0];
          if (left > 1) v[i][e][1] = from[1];
        }
      }
    TIDEK_EACH(i, 4)
      TIDEK_EACH(h, 2) {
        Pack<S, EACH> word;
        TIDEK_EACH(e, (int)EACH) word.v[e] = rounded(v[i][e][h], a.tf32);
        word.store((S *)&tile[lane + 32 * h][warp + i * 8]);
      }
    __syncthreads();
    const uint32_t w = c_tile * 32 + lane;
    W *out = (W *)a.out + (((int64_t)group * a.images + image) * a.places + p0 + 2 * warp) * a.words + w;
    if (w < a.words) {
#pragma unroll
      for (uint32_t i = 0; i < 4; i++)
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
          if (p0 + 2 * (warp + i * 8) + h < a.places) out[(i * 16 + h) * a.words] = tile[warp + i * 8 + 32 * h][lane];
    }
    __syncthreads();
  }
}

/* out[group][image][row][x][wide], of which element kx * channels + c is in[image][group][c][row][x * stride - before +
 * kx * dilation], for kx < kernel: the channels of a row of the kernel, or, with a kernel of one element, the weights'.
 * A thread makes 16 bytes; `each` of them to an image of a group. */
struct GatherArgs {
  void *out;
  const void *in;
  int64_t images, groups, all;
  int channels, rows, in_x, kernel, stride, before, dilation, tf32;
  uint32_t each = 0;
  Div by_packs = {}, by_x = {}, by_channels = {};
};
template <class S> __global__ void __launch_bounds__(256) gather_kernel(const __grid_constant__ GatherArgs a) {
  kernel_begin();
  constexpr int EACH = 16 / sizeof(S);
  for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < a.all; i += (int64_t)gridDim.x * 256) {
    const int64_t plane = i / a.each, group = plane / a.images, image = plane % a.images;
    uint32_t row = (uint32_t)(i % a.each), pack = a.by_packs.split(row), x = a.by_x.split(row);
    const S *in = (const S *)a.in + (image * a.groups + group) * a.channels * a.rows * a.in_x;
    Pack<S, EACH> out;
    TIDEK_EACH(e, EACH) {
      uint32_t kx = pack * EACH + e, c = a.by_channels.split(kx);
      int64_t at = (int64_t)x * a.stride - a.before + (int64_t)kx * a.dilation;
      bool found = (int)kx < a.kernel && at >= 0 && at < a.in_x;
      out.v[e] = found ? rounded(in[((int64_t)c * a.rows + row) * a.in_x + at], a.tf32) : cast<S>(0.f);
    }
    out.store((S *)a.out + i * EACH);
  }
}

/* ---- tile_kernel ---- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void copy_16(char *to, const void *from, bool found) {
#if __CUDA_ARCH__ >= 800
  int bytes = found ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
#else
  *(uint4 *)to = found ? *(const uint4 *)from : uint4{0, 0, 0, 0};
#endif
}
static __device__ __forceinline__ void copies_end() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
/* All copies but those of the last `N` ends are there. */
template <int N> static __device__ __forceinline__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N));
#endif
}

/* Chunk c of 16 bytes of a tile's row: where neighbouring rows' chunks are in other banks. */
static __device__ __forceinline__ uint32_t chunk_at(int row, int c) {
  return (uint32_t)(row * TILE_BYTES + ((c ^ ((row >> 1) & 3)) << 4));
}

/* The sums of a thread, in float32 or float64: every eighth of 64 rows and every eighth of 64 columns; two warps share
 * the rows, two the columns. So where a thread's chunks lie, of chunk_at, differs by constants. */
template <class S> struct Plain {
  static constexpr int THREADS = 128, M = 64, N = 128,
                       BLOCKS = sizeof(S) == 4 ? 2 : 1; /* of a multiprocessor, at least */
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  T sum[8][8] = {};
  static __device__ __forceinline__ int row() { return threadIdx.x / 32 % 2 * 4 + threadIdx.x % 32 / 8; }
  static __device__ __forceinline__ int column() { return threadIdx.x / 64 * 64 + threadIdx.x % 8; }
  __device__ __forceinline__ void add(const char *w, const char *x) {
    constexpr int EACH = 16 / sizeof(S);
    TIDEK_EACH(c, TILE_BYTES / 16) {
      Pack<S, EACH> v[8];
      TIDEK_EACH(j, 8) v[j] = Pack<S, EACH>::load((const S *)(x + chunk_at(column() + 8 * j, c)));
      TIDEK_EACH(i, 8) {
        Pack<S, EACH> u = Pack<S, EACH>::load((const S *)(w + chunk_at(row() + 8 * i, c)));
        TIDEK_EACH(e, EACH)
          TIDEK_EACH(j, 8) sum[i][j] += cast<T>(u.v[e]) * cast<T>(v[j].v[e]);
      }
    }
  }
  __device__ __forceinline__ void store(const ConvArgs &a, int64_t g, int64_t m0, int64_t n0) const {
    TIDEK_EACH(i, 8)
      TIDEK_EACH(j, 8) conv_store<S, T>(a, g, m0 + row() + 8 * i, n0 + column() + 8 * j, sum[i][j]);
  }
};

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

/* The sums of a warp on tensor cores: 64 rows by 32 columns of the tile. */
template <class S> struct Tensor {
  static constexpr int THREADS = 256, M = 128, N = 128, BLOCKS = 1;
  float sum[4][4][4] = {};
  __device__ __forceinline__ void add(const char *w, const char *x) {
#if __CUDA_ARCH__ >= 800
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 128 * 64, warp_n = threadIdx.x / 32 % 4 * 32;
    const uint32_t rows = shared_address(w), columns = shared_address(x);
#  pragma unroll
    for (int part = 0; part < 2; part++) {
      uint32_t u[4][4], v[2][4];
#  pragma unroll
      for (int i = 0; i < 4; i++) load_four(u[i], rows + chunk_at(warp_m + i * 16 + lane % 16, part * 2 + lane / 16));
#  pragma unroll
      for (int j = 0; j < 2; j++)
        load_four(v[j], columns + chunk_at(warp_n + j * 16 + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
#  pragma unroll
      for (int i = 0; i < 4; i++)
#  pragma unroll
        for (int j = 0; j < 4; j++) multiply(S{}, sum[i][j], u[i], v[j / 2][j % 2 * 2], v[j / 2][j % 2 * 2 + 1]);
    }
#endif
  }
  __device__ __forceinline__ void store(const ConvArgs &a, int64_t g, int64_t m0, int64_t n0) const {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 128 * 64, warp_n = threadIdx.x / 32 % 4 * 32;
    TIDEK_EACH(i, 4)
      TIDEK_EACH(j, 4)
        TIDEK_EACH(e, 4)
          conv_store<S, float>(a, g, m0 + warp_m + i * 16 + lane / 4 + e / 2 * 8,
                               n0 + warp_n + j * 8 + lane % 4 * 2 + e % 2, sum[i][j][e]);
  }
};

/* What a thread brings to each stage: its chunk of 16 bytes of some rows and some columns. Where a column
 * reads the input is found again for each element of the kernel. */
template <class S, class Sums>
__global__ void __launch_bounds__(Sums::THREADS, Sums::BLOCKS) tile_kernel(const __grid_constant__ ConvArgs a) {
  kernel_begin();
  constexpr int CHUNK = 16 / sizeof(S), TILE_K = TILE_BYTES / sizeof(S), STAGE = (Sums::M + Sums::N) * TILE_BYTES;
  constexpr int LINES = Sums::THREADS / 4, ROWS = Sums::M / LINES, COLUMNS = Sums::N / LINES;
  extern __shared__ __align__(128) char tiles[];
  Column *const begins = (Column *)(tiles + STAGES * STAGE);
  const int64_t b = blockIdx.x, m0 = b % a.tiles_m * Sums::M, rest = b / a.tiles_m, n0 = rest % a.tiles_n * Sums::N,
                g = rest / a.tiles_n;
  if (threadIdx.x < Sums::N) begins[threadIdx.x] = Column(a, n0 + threadIdx.x);
  __syncthreads();
  const int line = threadIdx.x / 4, chunk = threadIdx.x % 4;
  const S *w[ROWS], *x[COLUMNS]; /* the next chunks but for their channel; NULL: zeros */
  TIDEK_EACH(i, ROWS)
    w[i] = m0 + line + LINES * i < a.m ? (const S *)a.w + (g * a.m + m0 + line + LINES * i) * a.k : NULL;
  int64_t k = chunk * CHUNK;
  int channel = (int)k, kx = 0, ky = 0, kz = 0;

  auto find = [&]() {
    TIDEK_EACH(i, COLUMNS) {
      const Column c = begins[line + LINES * i];
      const int64_t at = kz < a.kernel[0] ? c.place(a, kz, ky, kx) : -1;
      x[i] = at >= 0 ? (const S *)a.x + ((g * a.batch + c.image) * a.in_plane + at) * a.wide : NULL;
    }
  };
  auto settle = [&]() { /* brings the channel back into a place's row */
                        if (channel < a.wide) return;
                        while (channel >= a.wide) {
                          channel -= (int)a.wide;
                          if (++kx < a.kernel[2]) continue;
                          kx = 0;
                          if (++ky == a.kernel[1]) ky = 0, kz++;
                        }
                        find();
  };
  auto bring = [&](int stage) {
    char *to = tiles + stage * STAGE;
    settle();
    TIDEK_EACH(i, ROWS) {
      const bool found = w[i] && k < a.k;
      copy_16(to + chunk_at(line + LINES * i, chunk), found ? w[i] + k : (const S *)a.w, found);
    }
    TIDEK_EACH(i, COLUMNS)
      copy_16(to + Sums::M * TILE_BYTES + chunk_at(line + LINES * i, chunk), x[i] ? x[i] + channel : (const S *)a.x,
              x[i]);
    k += TILE_K, channel += TILE_K;
    copies_end();
  };

  Sums sums;
  const int64_t steps = (a.k + TILE_K - 1) / TILE_K;
  find();
  TIDEK_EACH(s, STAGES - 1) bring(s);
  int stage = 0, next = STAGES - 1;
  for (int64_t step = 0; step < steps; step++) {
    copies_wait<STAGES - 2>();
    __syncthreads();
    bring(next);
    sums.add(tiles + stage * STAGE, tiles + stage * STAGE + Sums::M * TILE_BYTES);
    stage = stage + 1 == STAGES ? 0 : stage + 1, next = next + 1 == STAGES ? 0 : next + 1;
  }
  copies_wait<0>();
  sums.store(a, g, m0, n0);
}

/* ---- planning ---- */

static bool conv_plain(const tide_conv_args *a) { return a->results / a->groups < FEW_RESULTS; }

static int conv_major() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major;
}

/* How the operands are laid out, and so many images at a time. folded: the channels of a row of the kernel together. */
struct Laying {
  int64_t images, wide;
  size_t x_bytes, w_bytes;
  bool folded;
};
static int64_t conv_rounded(int64_t bytes) { return ceil_div(bytes, 256) * 256; }
static Laying laying_of(const tide_conv_args *a) {
  Laying l;
  const tide_taps *d = a->dim;
  const int64_t item = dtype_bytes(a->dtype), chunk = 16 / item, channels = a->channels / a->groups;
  const int64_t rows = d[0].in * d[1].in, folded = ceil_div(channels * d[2].kernel, chunk) * chunk;
  l.folded = channels < chunk && d[2].kernel > 1 && a->up[2] == 1 && rows * d[2].out * (folded / chunk) < MAX_PIECE;
  l.wide = l.folded ? folded : ceil_div(channels, chunk) * chunk;
  const int64_t image = rows * (l.folded ? d[2].out : d[2].in) * a->groups * l.wide * item;
  const int64_t most = MAX_PIECE / (d[0].out * d[1].out * d[2].out); /* columns are counted in 32 bits */
  l.images = LAID_BYTES / image < most ? LAID_BYTES / image : most;
  if (l.images > a->batch) l.images = a->batch;
  if (l.images < 1) l.images = 1;
  l.x_bytes = (size_t)conv_rounded(l.images * image);
  l.w_bytes =
      (size_t)conv_rounded(a->results * d[0].kernel * d[1].kernel * (l.folded ? 1 : d[2].kernel) * l.wide * item);
  return l;
}

static int few_blocks(int64_t blocks) { return blocks < 0x7fffffff ? (int)blocks : 0x7fffffff; }

template <class S> static int gather(cudaStream_t stream, GatherArgs g, int64_t rows, int64_t x, int64_t wide) {
  const int64_t packs = wide * (int64_t)sizeof(S) / 16;
  g.rows = (int)rows, g.each = (uint32_t)(rows * x * packs), g.all = g.images * g.groups * (int64_t)g.each;
  g.by_packs = make_div(packs), g.by_x = make_div(x), g.by_channels = make_div(g.channels);
  return launch(gather_kernel<S>, few_blocks(ceil_div(g.all, 256)), 256, stream, (const GatherArgs)g);
}

template <class S> static int lay_weights(cudaStream_t stream, const tide_conv_args *a, const Laying &l, void *out) {
  const tide_taps *d = a->dim;
  GatherArgs g = {out, a->head.ptr[2], a->results, 1, 0, (int)(a->channels / a->groups), 0, 1, 1, 1, 0, 1, a->tf32};
  if (l.folded) g.in_x = g.kernel = (int)d[2].kernel;
  return gather<S>(stream, g, d[0].kernel * d[1].kernel * (l.folded ? 1 : d[2].kernel), 1, l.wide);
}

template <class S>
static int lay_images(cudaStream_t stream, const tide_conv_args *a, const Laying &l, void *out, const void *in,
                      int64_t images) {
  const tide_taps *d = a->dim;
  const int64_t channels = a->channels / a->groups, places = d[0].in * d[1].in * d[2].in;
  if (l.folded) {
    GatherArgs g = {out,
                    in,
                    images,
                    a->groups,
                    0,
                    (int)channels,
                    0,
                    (int)d[2].in,
                    (int)d[2].kernel,
                    (int)d[2].stride,
                    (int)d[2].before,
                    (int)d[2].dilation,
                    a->tf32};
    return gather<S>(stream, g, d[0].in * d[1].in, d[2].out, l.wide);
  }
  const int64_t words = l.wide * (int64_t)sizeof(S) / (sizeof(S) == 8 ? 8 : 4);
  const int64_t tiles_p = ceil_div(places, 64), tiles_c = ceil_div(words, 32);
  const int64_t tiles = images * a->groups * tiles_p * tiles_c;
  if (tiles > 0x7fffffff) return (int)cudaErrorInvalidValue;
  const LayArgs y = {out,
                     in,
                     places,
                     (uint32_t)images,
                     (uint32_t)a->groups,
                     (uint32_t)channels,
                     (uint32_t)words,
                     (uint32_t)tiles,
                     a->tf32,
                     make_div(tiles_p),
                     make_div(tiles_c),
                     make_div(a->groups)};
  const bool even = places % 2 == 0 && (uintptr_t)in % (2 * sizeof(S)) == 0;
  return launch(even ? lay_kernel<S, true> : lay_kernel<S, false>, tiles, 256, stream, y);
}

/* ---- launching ---- */

static ConvArgs conv_begin(const tide_conv_args *a, int64_t images) {
  ConvArgs c = {};
  const tide_taps *d = a->dim;
  c.bias = a->head.ptr[3], c.w = a->head.ptr[2];
  c.groups = a->groups, c.batch = images, c.channels = c.wide = a->channels / a->groups, c.m = a->results / a->groups;
  c.plane = d[0].out * d[1].out * d[2].out, c.n = images * c.plane, c.in_plane = d[0].in * d[1].in * d[2].in;
  for (int i = 0; i < 3; i++) {
    c.in[i] = (int)d[i].in, c.out_size[i] = (int)d[i].out, c.kernel[i] = (int)d[i].kernel;
    c.stride[i] = (int)d[i].stride, c.before[i] = (int)d[i].before, c.dilation[i] = (int)d[i].dilation;
    c.up[i] = (int)a->up[i];
  }
  c.k = c.channels * conv_taps(c);
  c.by_plane = make_div(c.plane), c.by_row = make_div(d[1].out), c.by_x = make_div(d[2].out);
  return c;
}

/* The convolution once it is laid out. */
static void conv_laid(ConvArgs &c, const Laying &l) {
  if (l.folded)
    c.in[2] = c.out_size[2], c.kernel[2] = c.stride[2] = c.dilation[2] = 1, c.before[2] = 0,
    c.in_plane = (int64_t)c.in[0] * c.in[1] * c.in[2];
  c.wide = l.wide, c.k = conv_taps(c) * l.wide;
}

template <class S, class Sums> static int tile_run(cudaStream_t stream, ConvArgs &c) {
  const int bytes = STAGES * (Sums::M + Sums::N) * TILE_BYTES + Sums::N * (int)sizeof(Column);
  c.tiles_m = ceil_div(c.m, Sums::M), c.tiles_n = ceil_div(c.n, Sums::N);
  cudaError_t rc = cudaFuncSetAttribute(tile_kernel<S, Sums>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (rc) return (int)rc;
  return launch_shared(tile_kernel<S, Sums>, c.tiles_m * c.tiles_n * c.groups, Sums::THREADS, (size_t)bytes, stream,
                       (const ConvArgs)c);
}

template <class S> static int product_run(cudaStream_t stream, ConvArgs &c, const tide_conv_args *a, int major) {
  if constexpr (sizeof(S) < 8) {
    if (major >= 8 && (sizeof(S) == 2 || a->tf32)) {
      if (major == 9 && conv_hopper_takes(c, a->dtype)) return conv_hopper(stream, c, a->dtype);
      return tile_run<S, Tensor<S>>(stream, c);
    }
  }
  return tile_run<S, Plain<S>>(stream, c);
}

template <class S> static int plain_run(cudaStream_t stream, ConvArgs &c) {
  return launch(plain_kernel<S>, few_blocks(ceil_div(c.n, CONV_THREADS) * c.groups * c.m), CONV_THREADS, stream,
                (const ConvArgs)c);
}

template <class S> static int conv_run(cudaStream_t stream, const tide_conv_args *a, char *scratch) {
  const int64_t item = sizeof(S), major = conv_major();
  const Laying l = laying_of(a);
  int rc = conv_plain(a) ? 0 : lay_weights<S>(stream, a, l, scratch + l.x_bytes);
  for (int64_t done = 0, some; done < a->batch && !rc; done += some) {
    some = a->batch - done < l.images ? a->batch - done : l.images;
    ConvArgs c = conv_begin(a, some);
    c.out = (char *)a->head.ptr[0] + done * a->results * c.plane * item;
    c.x = (const char *)a->head.ptr[1] + done * a->channels * c.in_plane * item;
    if (conv_plain(a)) {
      rc = plain_run<S>(stream, c);
      continue;
    }
    rc = lay_images<S>(stream, a, l, scratch, c.x, some);
    c.x = scratch, c.w = scratch + l.x_bytes;
    conv_laid(c, l);
    if (!rc) rc = product_run<S>(stream, c, a, (int)major);
  }
  return rc;
}

} // namespace tidek

size_t tidek_conv_scratch(const tide_conv_args *a) {
  using namespace tidek;
  if (conv_plain(a)) return 0;
  const Laying l = laying_of(a);
  return l.x_bytes + l.w_bytes;
}

int tidek_conv(cudaStream_t stream, const tide_conv_args *a, void *scratch) {
  using namespace tidek;
  const tide_taps *d = a->dim;
  if (d[0].out * d[1].out * d[2].out > MAX_PIECE || d[0].in * d[1].in * d[2].in >= 0x7fffffff)
    return (int)cudaErrorInvalidValue;
  int rc;
  if (conv_depthwise(&rc, stream, a)) return rc;
  switch (a->dtype) {
  case TIDE_FLOAT16: return conv_run<half>(stream, a, (char *)scratch);
  case TIDE_BFLOAT16: return conv_run<bfloat16>(stream, a, (char *)scratch);
  case TIDE_FLOAT32: return conv_run<float>(stream, a, (char *)scratch);
  default: return conv_run<double>(stream, a, (char *)scratch);
  }
}
