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

__global__ void busy(float *x, int rounds) {
  float v = threadIdx.x;
  for (int i = 0; i < rounds; i++) v = v * 1.0001f + 0.5f;
  if (v == 0) *x = v;
}

/* ns from the first call to the end of all work: median of 9. */
template <class F> static double wall_ns(F f) {
  std::vector<double> times;
  for (int r = 0; r < 10; r++) {
    double t = now();
    f();
    cudaDeviceSynchronize();
    times.push_back(now() - t);
  }
  std::sort(times.begin() + 1, times.end()); /* the first one warms up */
  return times[5];
}

static double event_ms(cudaEvent_t a, cudaEvent_t b) {
  float ms = 0;
  cudaEventSynchronize(b);
  cudaEventElapsedTime(&ms, a, b);
  return ms;
}

static void copies(float *x, cudaStream_t s) {
  const size_t bytes = size_t(1) << 28;
  char *dev, *pinned, *paged = new char[bytes];
  cudaStream_t side;
  cudaEvent_t a, b;
  cudaMalloc(&dev, bytes), cudaMallocHost(&pinned, bytes);
  std::fill(pinned, pinned + bytes, 1), std::fill(paged, paged + bytes, 1);
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaEventCreate(&a), cudaEventCreate(&b);
  struct {
    const char *name, *overlap;
    void *to, *from;
    cudaMemcpyKind kind;
  } cases[] = {{"bw_h2d_pinned", "overlap_h2d", dev, pinned, cudaMemcpyHostToDevice},
               {"bw_d2h_pinned", "overlap_d2h", pinned, dev, cudaMemcpyDeviceToHost},
               {"bw_h2d_pageable", nullptr, dev, paged, cudaMemcpyHostToDevice},
               {"bw_d2h_pageable", nullptr, paged, dev, cudaMemcpyDeviceToHost}};
  for (auto &c : cases) {
    auto copy = [&] { cudaMemcpyAsync(c.to, c.from, bytes, c.kind, side); };
    double copying = wall_ns(copy);
    if (!c.overlap) {
      out(c.name, bytes / copying, "GB/s");
      continue;
    }
    std::vector<double> times;
    for (int r = 0; r < 20; r++) {
      cudaEventRecord(a, side), copy(), cudaEventRecord(b, side);
      times.push_back(event_ms(a, b));
    }
    std::sort(times.begin(), times.end());
    out(c.name, bytes / times[10] / 1e6, "GB/s");
    int rounds = 1 << 20;
    auto compute = [&] { busy<<<256, 256, 0, s>>>(x, rounds); };
    rounds = int(rounds * copying / wall_ns(compute));
    double computing = wall_ns(compute);
    double both = wall_ns([&] { copy(), compute(); });
    out(c.overlap, both / std::max(copying, computing), "of 1");
  }
  cudaFree(dev), cudaFreeHost(pinned);
  delete[] paged;
}

/* A graph of 100 small kernels that run one after the other: what a replay costs the host, and until it is done. */
template <class F> static void graph(const char *host, const char *done, cudaStream_t s, F launch) {
  cudaGraph_t recorded;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < 100; i++) launch();
  cudaStreamEndCapture(s, &recorded);
  cudaGraphInstantiate(&exec, recorded, 0);
  for (int i = 0; i < 200; i++) cudaGraphLaunch(exec, s);
  cudaDeviceSynchronize();
  out(host, median_ns([&] { cudaGraphLaunch(exec, s); }, 500), "ns");
  std::vector<double> times;
  for (int r = 0; r < 21; r++) {
    cudaDeviceSynchronize();
    double t = now();
    for (int i = 0; i < 100; i++) cudaGraphLaunch(exec, s);
    cudaDeviceSynchronize();
    times.push_back((now() - t) / 100);
  }
  std::sort(times.begin(), times.end());
  out(done, times[10] / 1e3, "us");
  cudaGraphExecDestroy(exec), cudaGraphDestroy(recorded);
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
  cudaDeviceSynchronize();
  out("host_event_query", median_ns([&] { cudaEventQuery(e); }, 5000), "ns");
  out("host_stream_query", median_ns([&] { cudaStreamQuery(s); }, 5000), "ns");
  out("host_item",
      median_ns(
          [&] {
            cudaMemcpyAsync(&value, z, 4, cudaMemcpyDeviceToHost, s);
            cudaStreamSynchronize(s);
          },
          2000),
      "ns");
  graph("host_graph_replay100", "graph_replay100_done", s, [&] { add<<<4, 256, 0, s>>>(x, y, x, 1024); });
  graph("host_graph_replay100_dependent", "graph_replay100_dependent_done", s,
        [&] { cudaLaunchKernelEx(&config, add, (const float *)x, (const float *)y, x, 1024); });
  copies(x, s);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
