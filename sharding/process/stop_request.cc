// SPDX-License-Identifier: MIT
#include "sharding/process/stop_request.h"

#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>

#include "base/errors.h"

namespace strata::sharding {
namespace {

std::atomic<bool> is_requested{false};
std::atomic<bool> is_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The flag that steps read: 0, or 1 after a request to stop.
float cpu_flag = 0;
std::atomic<float*> current_flag{&cpu_flag};
static_assert(std::atomic<float*>::is_always_lock_free && std::atomic_ref<float>::is_always_lock_free);

void raise_flag() { std::atomic_ref<float>(*current_flag.load()) = 1; }

void handle_signal(int signal) {
  if (signal == SIGINT && is_interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::interrupted));
  is_requested = true;
  raise_flag();
}

// Returns a flag in pinned memory. The flag is never freed, because a signal handler may run until the process ends.
float* pinned_flag() {
  void* memory = nullptr;
  C10_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(float), cudaHostAllocMapped));
  return new (memory) float(0);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = handle_signal;
  action.sa_flags = SA_RESTART;  // otherwise a signal could make a write of a checkpoint fail
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaction(signal, &action, nullptr);
}

bool stop_requested_here() { return is_requested; }

at::Tensor stop_request_on(at::Device device) {
  if (device.is_cuda()) {
    static float* const pinned = pinned_flag();
    current_flag = pinned;
    if (is_requested) raise_flag();  // the request may have come before the flag moved
  }
  return at::for_blob(current_flag.load(), {})
      .options(at::TensorOptions(at::kFloat).device(device))
      .target_device(device)
      .make_tensor();
}

}  // namespace strata::sharding
