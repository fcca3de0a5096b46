// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/kernels/held_multiprocessors.h"

namespace strata::kernels {

namespace {
constexpr int kMost = 132;  // blocks
}  // namespace

// A block writes only its own flags, because atomic operations of a GPU on memory of the host are not atomic there.
struct HeldMultiprocessors::Flags {
  volatile bool started[kMost], ended[kMost], released;
};

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

__device__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void sleep_kernel(volatile bool* started, volatile bool* ended, const volatile bool* released,
                             long long most) {
  const long long begin = nanoseconds();
  started[blockIdx.x] = true;
  while (!*released && nanoseconds() - begin < most) __nanosleep(10'000);
  ended[blockIdx.x] = true;
}

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("sleeping blocks: ") + cudaGetErrorString(error));
}

int number_of(const volatile bool (&flags)[kMost]) {
  return static_cast<int>(std::count(std::begin(flags), std::end(flags), true));
}

}  // namespace

HeldMultiprocessors::HeldMultiprocessors(int count) : count_(count) {
  if (count > kMost) throw std::runtime_error("sleeping blocks: more than the multiprocessors of a GPU");
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  check(cudaFuncSetAttribute(sleep_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  check(cudaHostAlloc(reinterpret_cast<void**>(&flags_), sizeof(Flags), cudaHostAllocMapped));
  new (flags_) Flags{};
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  const long long most = std::chrono::nanoseconds(kPatience).count();
  sleep_kernel<<<count, 32, bytes, stream_>>>(flags_->started, flags_->ended, &flags_->released, most);
  check(cudaGetLastError());
  const auto begin = std::chrono::steady_clock::now();
  while (number_of(flags_->started) < count) {
    if (std::chrono::steady_clock::now() - begin < kPatience / 2) continue;
    flags_->released = true;
    throw std::runtime_error("sleeping blocks: only " + std::to_string(number_of(flags_->started)) + " have started");
  }
}

HeldMultiprocessors::~HeldMultiprocessors() {
  flags_->released = true;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(flags_);
}

bool HeldMultiprocessors::hold() const { return number_of(flags_->started) == count_ && number_of(flags_->ended) == 0; }

}  // namespace strata::kernels
