// bare_index.cu: the plainest kernels for what index.lua measures, one element a thread, no checks. Prints
// `bare <tab> case <tab> value <tab> unit`.   nvcc -O3 -std=c++17 -arch=native bare_index.cu -o bare_index
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <string>
#include <vector>

static const int64_t n = int64_t(1) << 26;
static const int threads = 256, blocks = int(n / threads);

__global__ void random_index(int64_t *index, int64_t mask) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  uint64_t z = (uint64_t(i) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  index[i] = int64_t(z ^ (z >> 31)) & mask;
}
__global__ void gather(float *to, const float *from, const int64_t *index) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  to[i] = from[index[i]];
}
__global__ void scatter(float *to, const float *from, const int64_t *index) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  to[index[i]] = from[i];
}
__global__ void add(float *to, const float *from, const int64_t *index) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  atomicAdd(&to[index[i]], from[i]);
}
/* Sums of a block in shared memory first. */
__global__ void add_shared(float *to, const float *from, const int64_t *index, int places) {
  extern __shared__ float sums[];
  for (int k = threadIdx.x; k < places; k += blockDim.x) sums[k] = 0;
  __syncthreads();
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
    atomicAdd(&sums[index[i]], from[i]);
  __syncthreads();
  for (int k = threadIdx.x; k < places; k += blockDim.x) atomicAdd(&to[k], sums[k]);
}
/* Row index[r] of 64 numbers, read or added to, four numbers a thread. */
__global__ void select_rows(float4 *to, const float4 *from, const int64_t *index) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  to[i] = from[index[i / 16] * 16 + i % 16];
}
__global__ void add_rows(float4 *to, const float4 *from, const int64_t *index) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float4 v = from[i];
#if __CUDA_ARCH__ >= 900
  atomicAdd(&to[index[i / 16] * 16 + i % 16], v);
#else
  float *p = (float *)&to[index[i / 16] * 16 + i % 16];
  atomicAdd(p, v.x), atomicAdd(p + 1, v.y), atomicAdd(p + 2, v.z), atomicAdd(p + 3, v.w);
#endif
}

template <class F> static void rate(const std::string &name, F f) {
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  std::vector<float> times;
  for (int r = 0; r < 23; r++) {
    float ms;
    cudaEventRecord(a), f(), cudaEventRecord(b);
    cudaEventSynchronize(b);
    cudaEventElapsedTime(&ms, a, b);
    if (r >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  printf("bare\tindex_%s\t%.4g\tG/s\n", name.c_str(), double(n) / times[10] / 1e6);
  cudaEventDestroy(a), cudaEventDestroy(b);
}

int main() {
  float *x, *y;
  int64_t *index;
  int sms = 1;
  cudaMalloc(&x, n * 4), cudaMalloc(&y, n * 4), cudaMalloc(&index, n * 8);
  cudaMemset(x, 0, n * 4), cudaMemset(y, 0, n * 4);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  random_index<<<blocks, threads>>>(index, n - 1);
  rate("gather", [&] { gather<<<blocks, threads>>>(y, x, index); });
  rate("scatter", [&] { scatter<<<blocks, threads>>>(y, x, index); });
  for (int places : {26, 20, 10, 0}) {
    random_index<<<blocks, threads>>>(index, (int64_t(1) << places) - 1);
    std::string name = "scatter_add_2^" + std::to_string(places);
    rate(name, [&] { add<<<blocks, threads>>>(y, x, index); });
    if (places <= 10)
      rate(name + "_shared", [&] { add_shared<<<sms * 8, threads, 4 << places>>>(y, x, index, 1 << places); });
  }
  random_index<<<blocks, threads>>>(index, n / 64 - 1);
  rate("select_rows_float32", [&] { select_rows<<<blocks / 4, threads>>>((float4 *)y, (const float4 *)x, index); });
  rate("add_rows_float32", [&] { add_rows<<<blocks / 4, threads>>>((float4 *)y, (const float4 *)x, index); });
  cudaError_t rc = cudaDeviceSynchronize();
  if (rc != cudaSuccess) fprintf(stderr, "bare_index: %s\n", cudaGetErrorString(rc));
  return rc != cudaSuccess;
}
