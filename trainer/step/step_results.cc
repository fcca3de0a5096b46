// SPDX-License-Identifier: MIT
#include "trainer/step/step_results.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "sharding/process/failure.h"

namespace strata::trainer {
namespace {

constexpr int64_t kNumbers = StepNumbers<float>::kMembers.size();

StepNumbers<float> numbers_at(const float* values) {
  StepNumbers<float> numbers;
  for (const auto member : StepNumbers<float>::kMembers) numbers.*member = *values++;
  return numbers;
}

}  // namespace

StepResults::StepResults(at::Device device, int64_t work_values, int64_t hashes)
    : device_(device),
      work_values_(work_values),
      values_(at::zeros({kNumbers + work_values + hashes}, at::TensorOptions(at::kFloat).device(device))) {
  for (size_t i = 0; i < host_values_.size(); ++i) {
    host_values_[i] = at::empty(values_.sizes(), at::TensorOptions(at::kFloat).pinned_memory(device_.is_cuda()));
    if (device_.is_cuda()) arrived_[i] = std::make_unique<sharding::GpuEvent>();
  }
}

void StepResults::write(const StepNumbers<at::Tensor>& numbers, const at::Tensor& rank_values) {
  std::vector<at::Tensor> tensors;
  for (const auto member : StepNumbers<at::Tensor>::kMembers) tensors.push_back(numbers.*member);
  const at::Tensor stacked = at::stack(tensors);
  values_.copy_(rank_values.numel() == 0 ? stacked : at::cat({stacked, rank_values}));
}

StepNumbers<float> StepResults::last() const { return numbers_at(values_.cpu().const_data_ptr<float>()); }

void StepResults::push(int64_t step) {
  TORCH_CHECK(pending_.size() < host_values_.size(), "results of step ", step, ": those of step ",
              pending_.front().step, " were not read");
  host_values_[next_place_].copy_(values_, /*non_blocking=*/true);
  if (device_.is_cuda()) arrived_[next_place_]->record(c10::cuda::getCurrentCUDAStream(device_.index()));
  pending_.push_back({step, next_place_});
  next_place_ = (next_place_ + 1) % host_values_.size();
}

std::optional<StepResult> StepResults::next(bool all) {
  const size_t held_back = device_.is_cuda() && !all ? 1 : 0;
  if (pending_.size() <= held_back) return std::nullopt;
  const Pending oldest = pending_.front();
  pending_.pop_front();
  if (device_.is_cuda()) {
    sharding::set_position(oldest.step, "wait for the GPU");
    arrived_[oldest.place]->wait_on_host();
    sharding::set_position(oldest.step, "report");
  }
  const float* values = host_values_[oldest.place].const_data_ptr<float>();
  const float *work = values + kNumbers, *hashes = work + work_values_, *end = values + values_.numel();
  return StepResult{numbers_at(values), oldest.step, {work, hashes}, {hashes, end}};
}

}  // namespace strata::trainer
