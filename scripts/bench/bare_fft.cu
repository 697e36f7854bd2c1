// bare_fft.cu: cuFFT itself, out of place, with the layouts of fft.lua. Prints `bare <tab> case <tab> value <tab>
// unit`. nvcc -O3 -std=c++17 -arch=native bare_fft.cu -lcufft -o bare_fft
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cufft.h>
#include <vector>

static void row(const char *name, cufftType type, std::vector<int> n, int batch, int stride, int distance) {
  size_t bytes = size_t(2) << 30;
  char *in, *out;
  cudaMalloc(&in, bytes), cudaMalloc(&out, bytes);
  std::vector<float> noise(1 << 20);
  for (size_t i = 0; i < noise.size(); i++) noise[i] = float(rand()) / RAND_MAX - 0.5f;
  for (size_t at = 0; at < bytes; at += noise.size() * 4)
    cudaMemcpy(in + at, noise.data(), noise.size() * 4, cudaMemcpyDefault);
  cufftHandle plan;
  std::vector<int> half = n;
  half.back() = n.back() / 2 + 1;
  int half_distance = 1;
  for (int k : half) half_distance *= k;
  bool real = type == CUFFT_R2C;
  std::vector<int> &onembed = real ? half : n;
  if (cufftPlanMany(&plan, int(n.size()), n.data(), n.data(), stride, distance, onembed.data(), stride,
                    real ? half_distance : distance, type, batch) != CUFFT_SUCCESS) {
    fprintf(stderr, "bare_fft: no plan for %s\n", name);
    return;
  }
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  std::vector<float> times;
  for (int r = 0; r < 23; r++) {
    cudaEventRecord(a);
    for (int i = 0; i < 10; i++) {
      if (type == CUFFT_C2C) cufftExecC2C(plan, (cufftComplex *)in, (cufftComplex *)out, CUFFT_FORWARD);
      if (type == CUFFT_Z2Z) cufftExecZ2Z(plan, (cufftDoubleComplex *)in, (cufftDoubleComplex *)out, CUFFT_FORWARD);
      if (type == CUFFT_R2C) cufftExecR2C(plan, (float *)in, (cufftComplex *)out);
    }
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float ms;
    cudaEventElapsedTime(&ms, a, b);
    if (r >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  printf("bare\tfft_%s\t%.4g\tus\n", name, times[times.size() / 2] * 1e3 / 10);
  cufftDestroy(plan), cudaFree(in), cudaFree(out), cudaEventDestroy(a), cudaEventDestroy(b);
}

int main() {
  row("c2c_16M", CUFFT_C2C, {1 << 24}, 1, 1, 1 << 24);
  row("c2c_4096x1024", CUFFT_C2C, {1024}, 4096, 1, 1024);
  row("c2c_65536x256", CUFFT_C2C, {256}, 65536, 1, 256);
  row("c2c_64x65536", CUFFT_C2C, {65536}, 64, 1, 65536);
  row("c2c_16384x1009", CUFFT_C2C, {1009}, 16384, 1, 1009);
  row("z2z_16384x1024", CUFFT_Z2Z, {1024}, 16384, 1, 1024);
  row("r2c_65536x1024", CUFFT_R2C, {1024}, 65536, 1, 1024);
  row("c2c2_64x512x512", CUFFT_C2C, {512, 512}, 64, 1, 512 * 512);
  row("r2c2_64x512x512", CUFFT_R2C, {512, 512}, 64, 1, 512 * 512);
  row("c2c3_256", CUFFT_C2C, {256, 256, 256}, 1, 1, 1 << 24);
  row("c2c_dim1_4096x4096", CUFFT_C2C, {4096}, 4096, 4096, 1);
  return cudaDeviceSynchronize() != cudaSuccess;
}
