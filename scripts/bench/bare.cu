// bare.cu: what CUDA itself costs on this machine, with nothing between the program and the driver. Prints
// `bare <tab> case <tab> value <tab> unit`.   nvcc -O3 -std=c++17 -arch=native bare.cu -o bare
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

static double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void out(const char *name, double value, const char *unit) { printf("bare\t%s\t%.4g\t%s\n", name, value, unit); }

__global__ void add(const float *x, const float *y, float *z, int n) {
  cudaGridDependencySynchronize();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}

template <class F> static double median_ns(F f, int calls) {
  std::vector<double> times;
  for (int r = 0; r < 7; r++) {
    double t = now();
    for (int i = 0; i < calls; i++) f();
    times.push_back((now() - t) / calls);
    cudaDeviceSynchronize();
  }
  std::sort(times.begin(), times.end());
  return times[3];
}

int main() {
  double start = now();
  float *x, *y, *z, value;
  cudaFree(nullptr);
  out("context", (now() - start) / 1e6, "ms");
  cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&z, 4096);
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  add<<<4, 256, 0, s>>>(x, y, z, 1024);
  cudaMemcpyAsync(&value, z, 4, cudaMemcpyDeviceToHost, s);
  cudaStreamSynchronize(s);
  out("first_cuda_op", (now() - start) / 1e6, "ms");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 4, config.blockDim = 256, config.stream = s, config.attrs = &attribute, config.numAttrs = 1;
  out("host_launch", median_ns([&] { add<<<4, 256, 0, s>>>(x, y, z, 1024); }, 5000), "ns");
  out("host_launch_dependent",
      median_ns([&] { cudaLaunchKernelEx(&config, add, (const float *)x, (const float *)y, z, 1024); }, 5000), "ns");
  cudaEvent_t e;
  cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  out("host_event_record", median_ns([&] { cudaEventRecord(e, s); }, 5000), "ns");
  out("host_item",
      median_ns(
          [&] {
            cudaMemcpyAsync(&value, z, 4, cudaMemcpyDeviceToHost, s);
            cudaStreamSynchronize(s);
          },
          2000),
      "ns");
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
