// SPDX-License-Identifier: MIT
// Preloaded before the CUDA runtime: its GPUs are those of MADE_UP_GPUS, such as "Tesla T4=7.5,NVIDIA B200=10.0". They
// compute nothing: what launches a kernel or takes memory on one fails.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct MadeUp {
  std::string name;
  int major = 0, minor = 0;
};

std::vector<MadeUp> made_up() {
  std::vector<MadeUp> gpus;
  std::istringstream words(std::getenv("MADE_UP_GPUS"));
  for (std::string word; std::getline(words, word, ',');) {
    const size_t at = word.find('='), dot = word.find('.', at);
    gpus.push_back({word.substr(0, at), std::atoi(&word[at + 1]), std::atoi(&word[dot + 1])});
  }
  return gpus;
}

thread_local int current = 0;

}  // namespace

#define MADE_UP extern "C" __attribute__((visibility("default"))) cudaError_t

MADE_UP cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(made_up().size());
  return cudaSuccess;
}

MADE_UP cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const MadeUp gpu = made_up().at(static_cast<size_t>(device));
  *properties = {};
  std::strncpy(properties->name, gpu.name.c_str(), sizeof(properties->name) - 1);
  properties->major = gpu.major;
  properties->minor = gpu.minor;
  properties->uuid.bytes[0] = static_cast<char>(device);
  properties->totalGlobalMem = size_t{16} << 30;
  return cudaSuccess;
}

MADE_UP cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

MADE_UP cudaSetDevice(int device) {
  current = device;
  return cudaSuccess;
}

MADE_UP cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}

MADE_UP cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  static char streams[64];
  static size_t next = 0;
  *stream = reinterpret_cast<cudaStream_t>(&streams[next++ % sizeof(streams)]);
  return cudaSuccess;
}

// LibTorch asks the driver whether the GPU has a context, and there is no driver. Its headers are not included, so that
// this library needs none of LibTorch's.
namespace c10::cuda {
__attribute__((visibility("default"))) cudaError_t MaybeSetDevice(int8_t device) { return cudaSetDevice(device); }
}  // namespace c10::cuda
