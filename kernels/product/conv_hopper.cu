/* conv_hopper.cu: convolutions on Hopper's tensor cores, of operands that lie as conv.cuh says.
 *
 * A block makes tiles of the result, BM results by up to BN elements: a box of neighbouring columns, rows, planes and
 * images. For each element of the kernel and each 128 bytes of channels one thread lets the copy engine (TMA) bring the
 * box of the input that belongs to it, zeros where it is outside, and the weights, several stages ahead; two groups of
 * four warps multiply (wgmma), and store their sums through shared memory, whole lines at a time.
 *
 * Compiled for sm_90a alone, whose instructions no other architecture has.
 *
 * Invariant: a stage is filled when both of its parts are there, and free when both groups have multiplied it. */
#include <cuda.h>
#include <dlfcn.h>

#include "conv.cuh"

namespace tidek {

constexpr int ROW_BYTES = 128;                /* of a tile in shared memory, as the copy engine swizzles them */
constexpr int CONSUMERS = 256, THREADS = 384; /* the last four warps copy */
constexpr int STAGED_ROWS = 16, STAGED_BYTES = ROW_BYTES + 16; /* what a warp stores at a time; a row's pitch */

struct HopperArgs {
  CUtensorMap x, w;
  void *out;
  const void *bias;
  int64_t plane;
  int m, groups, batch;                                              /* results of a group; images */
  int box[4], size[3], kernel[3], stride[3], before[3], dilation[3]; /* box: columns, rows, planes, images */
  int chunks, bytes, run; /* of 128 bytes to a place; of a stage; elements that are stored at once: 16 bytes, 2 or 1 */
  int flat;               /* columns are the places of all images: by_plane */
  uint32_t tiles;
  Div by_m, by_tile[4], by_box[3], by_plane; /* how many tiles there are in results, columns, rows, planes, images */
};

/* ---- barriers, copies, products ---- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
static __device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void bring_weights(uint32_t to, const CUtensorMap *map, uint32_t barrier, int channel,
                                                     int tap, int row) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
               "l"(map), "r"(barrier), "r"(channel), "r"(tap), "r"(row)
               : "memory");
}
static __device__ __forceinline__ void bring_places(uint32_t to, const CUtensorMap *map, uint32_t barrier, int channel,
                                                    int x, int y, int z, int image) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
               "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(z), "r"(image)
               : "memory");
}

/* How wgmma is told of a matrix in shared memory whose rows, swizzled, are 128 bytes long: eight of them are 1024. */
static __device__ __forceinline__ uint64_t matrix_at(uint32_t at) {
  return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

#define R4(i)  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define LIST_64                                                                                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,"   \
  "%59,%60,%61,%62,%63"
#define LIST_128                                                                                                       \
  LIST_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"  \
          "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,"  \
          "%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
/* c += a b, or without `more` c = a b: 64 rows by 128 or 256 columns, 32 bytes of channels. */
#define HOPPER_MULTIPLY(S, kind, tail)                                                                                 \
  static __device__ __forceinline__ void multiply(S, float(&c)[128], uint64_t a, uint64_t b, int more) {               \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256" kind " {" LIST_128  \
                 "}, %128, %129, p, 1, 1" tail ";\n}"                                                                  \
                 : R64(0), R64(64)                                                                                     \
                 : "l"(a), "l"(b), "r"(more));                                                                         \
  }                                                                                                                    \
  static __device__ __forceinline__ void multiply(S, float(&c)[64], uint64_t a, uint64_t b, int more) {                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128" kind " {" LIST_64    \
                 "}, %64, %65, p, 1, 1" tail ";\n}"                                                                    \
                 : R64(0)                                                                                              \
                 : "l"(a), "l"(b), "r"(more));                                                                         \
  }
HOPPER_MULTIPLY(half, "k16.f32.f16.f16", ", 0, 0")
HOPPER_MULTIPLY(bfloat16, "k16.f32.bf16.bf16", ", 0, 0")
HOPPER_MULTIPLY(float, "k8.f32.tf32.tf32", "")

/* ---- the kernel ---- */

/* Where a tile begins. */
struct Tile {
  int row, x, y, z, image, group;
  __device__ __forceinline__ Tile(const HopperArgs &a, uint32_t b, int rows) {
    row = (int)a.by_m.split(b) * rows;
    x = (int)a.by_tile[0].split(b) * a.box[0], y = (int)a.by_tile[1].split(b) * a.box[1];
    z = (int)a.by_tile[2].split(b) * a.box[2], image = (int)a.by_tile[3].split(b) * a.box[3];
    group = (int)b;
  }
};

/* The element of the result for row 0 of the group at place p of the box, or -1 where there is none. */
static __device__ __forceinline__ int64_t element_of(const HopperArgs &a, const Tile &t, uint32_t p) {
  int x = t.x + (int)a.by_box[0].split(p), y = t.y + (int)a.by_box[1].split(p), z = t.z + (int)a.by_box[2].split(p);
  int image = t.image + (int)p;
  if ((int)p >= a.box[3] || x >= a.size[2] || y >= a.size[1] || z >= a.size[0] || image >= a.batch) return -1;
  int64_t place = ((int64_t)z * a.size[1] + y) * a.size[2] + x;
  if (a.flat) {
    uint32_t rest = (uint32_t)x;
    place = a.by_plane.split(rest), image = (int)rest;
  }
  return ((int64_t)image * a.groups + t.group) * a.m * a.plane + place;
}

/* Stores what a warp holds of 16 rows from `row` on: c[4 * j + ...] are its columns 8 * j and on, which begin at
 * `first`. RUN: so many neighbours of a row, which lie together in the result and begin at a multiple of their bytes,
 * at once. */
template <class S, int RUN, int N>
static __device__ __forceinline__ void store_rows(const HopperArgs &a, const Tile &t, const float (&c)[N], int row,
                                                  int first, char *staged) {
  constexpr int PIECE = ROW_BYTES / sizeof(S), LANES = PIECE / RUN < 32 ? PIECE / RUN : 32, PARTS = PIECE / RUN / LANES;
  constexpr int AT_ONCE = 32 / LANES, TIMES = STAGED_ROWS / AT_ONCE; /* rows */
  const int lane = threadIdx.x % 32, rows = a.m - row < STAGED_ROWS ? a.m - row : STAGED_ROWS;
  float add[2] = {0, 0};
  TIDEK_EACH(h, 2)
    if (a.bias && lane / 4 + 8 * h < rows)
      add[h] = cast<float>(((const S *)a.bias)[t.group * a.m + row + lane / 4 + 8 * h]);
  TIDEK_EACH(q, 2 * N / PIECE) {
    __syncwarp();
    TIDEK_EACH(j, PIECE / 8)
      TIDEK_EACH(h, 2) {
        const float *v = &c[(q * (PIECE / 8) + j) * 4 + 2 * h];
        Pack<S, 2> two;
        two.v[0] = cast<S>(v[0] + add[h]), two.v[1] = cast<S>(v[1] + add[h]);
        two.store((S *)(staged + (lane / 4 + 8 * h) * STAGED_BYTES) + j * 8 + lane % 4 * 2);
      }
    __syncwarp();
    TIDEK_EACH(part, PARTS) {
      const int place = part * LANES * RUN + lane % LANES * RUN;
      const int64_t at = element_of(a, t, first + q * PIECE + place);
      Pack<S, RUN> run[TIMES];
      TIDEK_EACH(i, TIMES)
        run[i] = Pack<S, RUN>::load((const S *)(staged + (i * AT_ONCE + lane / LANES) * STAGED_BYTES) + place);
      S *out = (S *)a.out + at + (row + lane / LANES) * a.plane;
      TIDEK_EACH(i, TIMES)
        if (at >= 0 && i * AT_ONCE + lane / LANES < rows) run[i].store(out + i * AT_ONCE * a.plane);
    }
  }
}

/* BM: 128, a group of warps for each 64 results; or 64, a group for each half of the places. STEPS: how many 32 bytes
 * of a chunk hold channels. */
template <class S, int BM, int BN, int STAGES, int STEPS>
__global__ void __launch_bounds__(THREADS, 1) hopper_kernel(const __grid_constant__ HopperArgs a) {
  kernel_begin();
  constexpr int N = BM == 128 ? BN : BN / 2, W_BYTES = BM * ROW_BYTES, STAGE = W_BYTES + BN * ROW_BYTES;
  extern __shared__ char shared[];
  char *base = (char *)(((uintptr_t)shared + 1023) & ~(uintptr_t)1023);
  char *staged = base + STAGES * STAGE;
  const uint32_t tiles = shared_address(base);
  const uint32_t full = shared_address(staged + CONSUMERS / 32 * STAGED_ROWS * STAGED_BYTES), empty = full + 8 * STAGES;
  const int t = threadIdx.x, group = t / 128;
  if (t == 0) {
    for (int i = 0; i < STAGES; i++) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 2);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int stage = 0, turn = 0;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (t != CONSUMERS) return;
    for (uint32_t b = blockIdx.x; b < a.tiles; b += gridDim.x) {
      const Tile at(a, b, BM);
      const int x = at.x * a.stride[2] - a.before[2], y = at.y * a.stride[1] - a.before[1],
                z = at.z * a.stride[0] - a.before[0];
      int tap = 0;
      for (int kz = 0; kz < a.kernel[0]; kz++)
        for (int ky = 0; ky < a.kernel[1]; ky++)
          for (int kx = 0; kx < a.kernel[2]; kx++, tap++)
            for (int c = 0; c < a.chunks; c++) {
              const uint32_t to = tiles + stage * STAGE, barrier = full + 8 * stage;
              barrier_wait(empty + 8 * stage, turn ^ 1);
              barrier_expect(barrier, a.bytes);
              bring_weights(to, &a.w, barrier, c * (ROW_BYTES / (int)sizeof(S)), tap, at.group * a.m + at.row);
              bring_places(to + W_BYTES, &a.x, barrier, c * (ROW_BYTES / (int)sizeof(S)), x + kx * a.dilation[2],
                           y + ky * a.dilation[1], z + kz * a.dilation[0], at.group * a.batch + at.image);
              if (++stage == STAGES) stage = 0, turn ^= 1;
            }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  const int steps = a.kernel[0] * a.kernel[1] * a.kernel[2] * a.chunks;
  const uint32_t w = tiles + (BM == 128 ? group * 64 * ROW_BYTES : 0);
  const uint32_t x = tiles + W_BYTES + (BM == 128 ? 0 : group * N * ROW_BYTES);
  for (uint32_t b = blockIdx.x; b < a.tiles; b += gridDim.x) {
    float c[N / 2];
    int last = -1;
    for (int s = 0; s < steps; s++) {
      barrier_wait(full + 8 * stage, turn);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      const uint64_t u = matrix_at(w + stage * STAGE), v = matrix_at(x + stage * STAGE);
      TIDEK_EACH(k, STEPS) multiply(S{}, c, u + 2 * k, v + 2 * k, s | k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (last >= 0 && t % 128 == 0) barrier_arrive(empty + 8 * last);
      last = stage;
      if (++stage == STAGES) stage = 0, turn ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (t % 128 == 0) barrier_arrive(empty + 8 * last);
    TIDEK_EACH(i, N / 2) asm volatile("" : "+f"(c[i])::"memory"); /* not read before the products are done */
    const Tile at(a, b, BM);
    const int row = at.row + (BM == 128 ? group * 64 : 0) + t % 128 / 32 * STAGED_ROWS,
              first = BM == 128 ? 0 : group * N;
    char *room = staged + t / 32 * STAGED_ROWS * STAGED_BYTES;
    constexpr int MOST = 16 / sizeof(S);
    if (a.run == MOST)
      store_rows<S, MOST>(a, at, c, row, first, room);
    else if (a.run == 2)
      store_rows<S, 2>(a, at, c, row, first, room);
    else
      store_rows<S, 1>(a, at, c, row, first, room);
  }
}

/* ---- launching ---- */

typedef CUresult encode_function(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                 const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static encode_function *encoder() {
  static encode_function *const found = [] {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? (encode_function *)dlsym(library, "cuTensorMapEncodeTiled") : NULL;
  }();
  return found;
}

static CUresult encode(CUtensorMap *map, int dtype, uint32_t dims, const void *from, const cuuint64_t *size,
                       const cuuint32_t *box, const cuuint32_t *step) {
  const cuuint64_t item = (cuuint64_t)dtype_bytes(dtype);
  cuuint64_t pitch[4] = {size[0] * item};
  for (uint32_t i = 1; i + 1 < dims; i++) pitch[i] = pitch[i - 1] * size[i];
  return encoder()(map,
                   dtype == TIDE_FLOAT16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                   : dtype == TIDE_BFLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                   dims, (void *)from, size, pitch, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* The box of at most `most` places that needs the fewest tiles, if its rows are not short. Only
 * sizes that divide a dim evenly are looked at. False: there is none, the stride is too long. */
static bool best_box(int (&box)[4], const ConvArgs &a, int most) {
  int64_t best = INT64_MAX;
  const int64_t size[3] = {a.out_size[2], a.out_size[1], a.out_size[0]};
  const int64_t stride[3] = {a.stride[2], a.stride[1], a.stride[0]};
  auto next = [&](int d, int64_t b) { /* the next smaller part of dim d, 0: there is none */
                                      if (b == 1) return (int64_t)0;
                                      int64_t parts = ceil_div(size[d], b) + 1, smaller = ceil_div(size[d], parts);
                                      while (smaller >= b) smaller = ceil_div(size[d], ++parts);
                                      return smaller;
  };
  auto fits = [&](int d, int64_t b) { return (b - 1) * stride[d] + 1 <= 256; };
  auto begin = [&](int d, int64_t room) {
    int64_t b = size[d] < room ? size[d] : ceil_div(size[d], ceil_div(size[d], room));
    while (b && !fits(d, b)) b = next(d, b);
    return b;
  };
  for (int64_t x = begin(0, most); x; x = next(0, x))
    for (int64_t y = begin(1, most / x); y; y = next(1, y))
      for (int64_t z = begin(2, most / (x * y)); z; z = next(2, z)) {
        int64_t n = most / (x * y * z), tiles;
        n = ceil_div(a.batch, ceil_div(a.batch, n < a.batch ? n : a.batch));
        tiles = ceil_div(size[0], x) * ceil_div(size[1], y) * ceil_div(size[2], z) * ceil_div(a.batch, n);
        const int64_t run = x == size[0] ? 2 * x : x; /* short rows are slow to bring and to store */
        tiles *= 256 + 1024 / run + 16 * (size[0] % 2 == 0 && x % 2) + 16 * (size[0] % 8 == 0 && x % 8);
        if (tiles < best) best = tiles, box[0] = (int)x, box[1] = (int)y, box[2] = (int)z, box[3] = (int)n;
      }
  return best < INT64_MAX;
}

bool conv_hopper_takes(const ConvArgs &a, int dtype) {
  for (int d = 0; d < 3; d++)
    if (a.up[d] != 1 || a.stride[d] > 8) return false;
  return encoder() != NULL;
}

/* Is each element of the result a sum of one place alone? Then planes are rows of any length. */
static bool conv_is_flat(const ConvArgs &a) {
  for (int d = 0; d < 3; d++)
    if (a.kernel[d] * a.stride[d] != 1 || a.before[d] || a.in[d] != a.out_size[d]) return false;
  return true;
}

template <class S, int BM, int BN, int STAGES, int STEPS>
static int hopper_run(cudaStream_t stream, ConvArgs c, int dtype) {
  constexpr int CHUNK = ROW_BYTES / sizeof(S);
  const int bytes = 1024 + STAGES * (BM + BN) * ROW_BYTES + CONSUMERS / 32 * STAGED_ROWS * STAGED_BYTES + 16 * STAGES;
  HopperArgs a = {};
  a.flat = conv_is_flat(c);
  if (a.flat) {
    c.in[0] = c.in[1] = c.out_size[0] = c.out_size[1] = 1, c.in[2] = c.out_size[2] = (int)c.n, c.batch = 1;
    a.by_plane = make_div(c.plane);
  }
  if (!best_box(a.box, c, BN)) return (int)cudaErrorInvalidValue;
  const cuuint64_t place[5] = {(cuuint64_t)c.wide, (cuuint64_t)c.in[2], (cuuint64_t)c.in[1], (cuuint64_t)c.in[0],
                               (cuuint64_t)(c.batch * c.groups)};
  const cuuint64_t weight[3] = {(cuuint64_t)c.wide, (cuuint64_t)conv_taps(c), (cuuint64_t)(c.m * c.groups)};
  const cuuint32_t w_box[3] = {CHUNK, 1, BM}, w_step[3] = {1, 1, 1};
  cuuint32_t x_box[5] = {CHUNK, 1, 1, 1, (cuuint32_t)a.box[3]}, x_step[5] = {1, 1, 1, 1, 1};
  for (int d = 0; d < 3; d++) {
    x_step[1 + d] = (cuuint32_t)c.stride[2 - d];
    x_box[1 + d] = (cuuint32_t)((a.box[d] - 1) * c.stride[2 - d] + 1);
  }
  if (encode(&a.x, dtype, 5, c.x, place, x_box, x_step) != CUDA_SUCCESS) return (int)cudaErrorInvalidValue;
  if (encode(&a.w, dtype, 3, c.w, weight, w_box, w_step) != CUDA_SUCCESS) return (int)cudaErrorInvalidValue;
  a.out = c.out, a.bias = c.bias, a.plane = c.plane, a.m = (int)c.m, a.groups = (int)c.groups, a.batch = (int)c.batch;
  const int64_t rows = ceil_div(c.m, BM);
  int64_t tiles = rows * c.groups;
  a.by_m = make_div(rows);
  for (int d = 0; d < 4; d++) {
    const int64_t parts = ceil_div(d < 3 ? c.out_size[2 - d] : c.batch, a.box[d]);
    tiles *= parts, a.by_tile[d] = make_div(parts);
  }
  for (int d = 0; d < 3; d++) {
    a.by_box[d] = make_div(a.box[d]), a.size[d] = c.out_size[d], a.kernel[d] = c.kernel[d], a.stride[d] = c.stride[d];
    a.before[d] = c.before[d], a.dilation[d] = c.dilation[d];
  }
  if (tiles > 0x7fffffff) return (int)cudaErrorInvalidValue;
  a.tiles = (uint32_t)tiles, a.chunks = (int)ceil_div(c.wide, CHUNK);
  a.bytes = (BM + a.box[0] * a.box[1] * a.box[2] * a.box[3]) * ROW_BYTES;
  a.run = 1;
  for (int run : {2, 16 / (int)sizeof(S)})
    if ((a.flat ? c.plane : c.out_size[2]) % run == 0 && (a.box[0] % run == 0)) a.run = run;
  int device = 0, blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  auto kernel = hopper_kernel<S, BM, BN, STAGES, STEPS>;
  cudaError_t rc = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (rc) return (int)rc;
  return launch_shared(kernel, tiles < blocks ? tiles : blocks, THREADS, (size_t)bytes, stream, (const HopperArgs)a);
}

/* Small tiles where large ones would leave multiprocessors idle: with them a pass takes a little more than half. */
static bool prefers_small(const ConvArgs &a) {
  int device = 0, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  const int64_t rows = ceil_div(a.m, 128) * a.groups;
  const int64_t large = ceil_div(rows * ceil_div(a.n, 256), blocks),
                small = ceil_div(rows * ceil_div(a.n, 128), blocks);
  return small * 6 < large * 10;
}

template <class S> static int hopper_pick(cudaStream_t stream, const ConvArgs &a, int dtype) {
  if (a.m > 64 && prefers_small(a)) return hopper_run<S, 128, 128, 6, 4>(stream, a, dtype);
  if (a.m > 64) return hopper_run<S, 128, 256, 4, 4>(stream, a, dtype);
  if (a.wide * (int64_t)sizeof(S) > 64) return hopper_run<S, 64, 256, 5, 4>(stream, a, dtype);
  return hopper_run<S, 64, 256, 5, 2>(stream, a, dtype);
}

int conv_hopper(cudaStream_t stream, const ConvArgs &a, int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return hopper_pick<half>(stream, a, dtype);
  case TIDE_BFLOAT16: return hopper_pick<bfloat16>(stream, a, dtype);
  default: return hopper_pick<float>(stream, a, dtype);
  }
}

} // namespace tidek
