// SPDX-License-Identifier: MIT
#include "trainer/replicas/content_sum.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "base/all_threads.h"
#include "trainer/replicas/content_sum_cuda.h"

namespace strata::trainer {
namespace {

constexpr int64_t kFewest = 1 << 20;  // elements for a thread of its own: 1.5 ms of work

}  // namespace

ContentSum sum_on_all_threads(const float* values, int64_t count, int64_t offset) {
  ContentSum sum;
  std::mutex mutex;
  on_all_threads(count, kFewest, [&](int64_t begin, int64_t end) {
    const ContentSum part = sum_of_piece(values + begin, end - begin, offset + begin);
    const std::lock_guard lock(mutex);
    sum += part;
  });
  return sum;
}

void add_content(const at::Tensor& tensor, int64_t offset, const at::Tensor& sum) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.device() == sum.device(), "expected a contiguous tensor on ",
              sum.device(), ", got one on ", tensor.device());
  const float* values = tensor.const_data_ptr<float>();
  int64_t* cell = sum.mutable_data_ptr<int64_t>();
  if (tensor.is_cuda()) {
    const c10::cuda::CUDAGuard device(tensor.device());
    C10_CUDA_CHECK(launch_content_sum(values, tensor.numel(), offset, cell, c10::cuda::getCurrentCUDAStream()));
    return;
  }
  const uint64_t more = sum_on_all_threads(values, tensor.numel(), offset).low;
  *cell = static_cast<int64_t>(static_cast<uint64_t>(*cell) + more);
}

}  // namespace strata::trainer
