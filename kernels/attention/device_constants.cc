// SPDX-License-Identifier: MIT
#include "kernels/attention/device_constants.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/attention/pattern/program.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

at::Tensor filled(const std::vector<int32_t>& numbers, bool pinned) {
  const at::Tensor tensor =
      at::empty({static_cast<int64_t>(numbers.size())}, at::TensorOptions(at::kInt).pinned_memory(pinned));
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data_ptr<int32_t>());
  return tensor;
}

at::Tensor copied_to(at::Device device, const std::string& name, const std::vector<int32_t>& numbers) {
  const c10::cuda::CUDAGuard guard(device);
  const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  TORCH_CHECK(
      !capturing, "attention: ", name, " is not on ", device,
      " yet, and a copy during the capture of a CUDA graph would be recorded; run one step of these sizes before "
      "the capture");
  const at::Tensor result = filled(numbers, /*pinned=*/true).to(device, /*non_blocking=*/true);
  at::cuda::CUDAEvent copied;
  copied.record();
  copied.synchronize();  // other streams read it from now on
  return result;
}

}  // namespace

at::Tensor device_constants(const std::string& name, at::Device device,
                            const std::function<std::vector<int32_t>()>& make) {
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::vector<int32_t>>;
  static auto* kept = new std::map<std::pair<std::string, at::DeviceIndex>, at::Tensor>;  // -1: the CPU
  const std::lock_guard lock(mutex);
  at::Tensor& tensor = (*kept)[{name, device.is_cuda() ? device.index() : at::DeviceIndex{-1}}];
  if (!tensor.defined()) {
    auto numbers = made->find(name);
    if (numbers == made->end()) numbers = made->emplace(name, make()).first;
    tensor = device.is_cuda() ? copied_to(device, name, numbers->second) : filled(numbers->second, /*pinned=*/false);
  }
  if (device.is_meta()) traced_workspace(static_cast<int64_t>(tensor.nbytes()));
  return tensor;
}

at::Tensor float_device_constants(const std::string& name, at::Device device, const std::vector<double>& numbers) {
  const auto bits = [&] {
    std::vector<int32_t> bits;
    for (const double number : numbers) bits.push_back(std::bit_cast<int32_t>(static_cast<float>(number)));
    return bits;
  };
  return device_constants(name, device, bits).view(at::kFloat);
}

at::Tensor program_on(at::Device device, const Pattern& pattern) {
  return device_constants("the program of " + to_text(pattern), device, [&] {
    const Program program = compile_program(pattern);
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < program.length; ++i) {
      const auto& [operation, first, second] = program.instructions[i];
      numbers.insert(numbers.end(), {static_cast<int32_t>(operation), first, second});
    }
    return numbers;
  });
}

}  // namespace strata::kernels
