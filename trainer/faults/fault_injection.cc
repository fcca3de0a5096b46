// SPDX-License-Identifier: MIT
#include "trainer/faults/fault_injection.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/text/word_of.h"
#include "trainer/faults/fault_kernels.h"

namespace strata::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Flips the highest bit of the fraction in the largest value: it changes by a quarter to a half of itself, so the
// change is not lost in rounding. Neither autograd nor a trace of ops sees it, as if a bit of the memory had decayed.
// The place stays on the device, so that no step waits for a GPU.
void flip_bit(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const at::RecordFunctionGuard unrecorded(/*is_enabled=*/false);
  const at::Tensor values = tensor.variable_data();
  const at::Tensor largest = values.abs().argmax();
  const at::Tensor is_largest = at::arange(values.numel(), largest.options()).eq(largest).view(values.sizes());
  if (values.scalar_type() == at::kFloat) {
    values.view(at::kInt).bitwise_xor_(is_largest.to(at::kInt) * (1 << 22));
  } else {
    const int bit = values.scalar_type() == at::kBFloat16 ? 1 << 6 : 1 << 9;
    values.view(at::kShort).bitwise_xor_(is_largest.to(at::kShort) * bit);
  }
}

}  // namespace

FaultInjection::FaultInjection(const FaultConfig& config, int rank, const std::vector<modules::ParameterGroup>& groups,
                               sharding::Communicator& communicator)
    : kind_(config.kind), communicator_(communicator) {
  if (kind_ == Fault::none) return;
  const std::optional<FaultPlace> place = parse_fault_place(config.at);
  std::vector<std::string> layers;
  for (const modules::ParameterGroup& group : groups) {
    if (group.role == modules::Role::layer) layers.push_back(group.name);
  }
  if (!place || place->layer >= std::ssize(layers)) {
    throw Error(ExitCode::configuration,
                "fault.at: expected 'step 7 rank 1' or 'step 7 rank 1 layer 2', with a layer below " +
                    std::to_string(layers.size()) + ", got '" + config.at + "'");
  }
  if (stops_the_gpu(kind_) && communicator_.device().is_cpu()) {
    throw Error(ExitCode::configuration,
                "fault.kind: " + word_of(kind_) + " is a fault of GPUs, and this run is on CPUs");
  }
  armed_ = rank == place->rank;
  step_ = place->step;
  layer_ = place->layer;
  group_ = layers[static_cast<size_t>(layer_)];
  if (armed_ && (kind_ == Fault::nan || kind_ == Fault::nan_loss || kind_ == Fault::endless_inside)) {
    factor_ = at::ones({}, at::TensorOptions(at::kFloat).device(communicator.device()));
  }
}

void FaultInjection::begin_step(int64_t step, const std::vector<sharding::ShardedParameterGroup*>& groups) {
  const bool slow = kind_ == Fault::slow;
  now_ = armed_ && (slow ? step >= step_ : step == step_);
  has_flipped_ = false;
  if (factor_.defined()) factor_.fill_(now_ ? kNan : 1);
  if (now_ && slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (now_ && (kind_ == Fault::endless_kernel || kind_ == Fault::illegal_address)) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(communicator_.device().index());
    C10_CUDA_CHECK(kind_ == Fault::endless_kernel ? launch_endless_kernel(stream) : launch_invalid_write(stream));
  }
  if (!now_ || kind_ != Fault::flip_weight) return;
  for (auto* group : groups) {
    if (group->name() != group_) continue;
    flip_bit(group->master());
    if (group->compute_copy().defined()) group->compute_copy().copy_(group->master());
  }
}

void FaultInjection::inject() {
  switch (kind_) {
    case Fault::kill:
      ::kill(::getpid(), SIGKILL);
      return;
    case Fault::hang:
      ::kill(::getpid(), SIGSTOP);
      return;
    case Fault::exception:
      throw std::runtime_error("the exception that fault.kind asked for");
    case Fault::extra_collective:
      communicator_.all_reduce(at::zeros({1}, at::TensorOptions().device(communicator_.device())), "fault").wait();
      return;
    case Fault::nan:
    case Fault::nan_loss:
    case Fault::nan_weights:
    case Fault::scale_gradient:
    case Fault::large_gradient:
    case Fault::slow:
    case Fault::flip_weight:
    case Fault::flip_gradient:
    case Fault::flip_activation:
    case Fault::flip_reduced_gradient:
    case Fault::endless_kernel:
    case Fault::illegal_address:
    case Fault::endless_inside:
    case Fault::none:
      return;
  }
}

modules::Layer FaultInjection::wrap_layer(int64_t index, modules::Layer layer) {
  return [this, index, layer = std::move(layer)](const modules::ResidualStream& stream,
                                                 const modules::StepContext& context) {
    if (now_) inject();
    if (factor_.defined() && kind_ == Fault::endless_inside && index == layer_) {
      const cudaStream_t current = c10::cuda::getCurrentCUDAStream(communicator_.device().index());
      C10_CUDA_CHECK(launch_wait(factor_.const_data_ptr<float>(), current));
    }
    modules::ResidualStream output = layer(stream, context);
    if (now_ && kind_ == Fault::flip_activation && index == layer_ && !std::exchange(has_flipped_, true)) {
      flip_bit(output.branch.defined() ? output.branch : output.residual);
    }
    return output;
  };
}

void FaultInjection::before_reduce(sharding::ShardedParameterGroup& group) {
  if (factor_.defined() && kind_ == Fault::nan) {
    group.full_gradients().front().flatten().narrow(0, 0, 1).mul_(factor_);
  }
  if (!now_) return;
  if (kind_ == Fault::scale_gradient || kind_ == Fault::large_gradient) {
    const double factor = kind_ == Fault::scale_gradient ? 1000 : 0x1p30;
    for (const at::Tensor& gradient : group.full_gradients()) gradient.mul_(factor);
  }
  if (kind_ == Fault::nan_weights) group.master().narrow(0, 0, 1).fill_(kNan);
  if (kind_ == Fault::flip_gradient && group.name() == group_ && !std::exchange(has_flipped_, true)) {
    flip_bit(group.full_gradients().front());
  }
}

void FaultInjection::after_reduce(const std::vector<sharding::ShardedParameterGroup*>& groups) {
  if (!now_ || kind_ != Fault::flip_reduced_gradient) return;
  for (auto* group : groups) {
    if (group->name() == group_) flip_bit(group->gradient());
  }
}

at::Tensor FaultInjection::change(const at::Tensor& loss) const {
  return factor_.defined() && kind_ == Fault::nan_loss ? loss * factor_ : loss;
}

}  // namespace strata::trainer
