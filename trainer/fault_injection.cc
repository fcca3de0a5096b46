// SPDX-License-Identifier: MIT
#include "trainer/fault_injection.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <thread>

#include "base/errors.h"

namespace strata::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

FaultInjection::FaultInjection(const FaultConfig& config, int rank, sharding::Communicator& communicator)
    : kind_(config.kind), communicator_(communicator) {
  long long step = 0;
  int struck = 0;
  if (kind_ == Fault::none) return;
  if (std::sscanf(config.at.c_str(), "step %lld rank %d", &step, &struck) != 2) {
    throw Error(ExitCode::configuration, "fault.at: expected 'step 7 rank 1', got '" + config.at + "'");
  }
  armed_ = rank == struck;
  step_ = step;
}

void FaultInjection::begin_step(int64_t step) {
  const bool slow = kind_ == Fault::slow;
  now_ = armed_ && (slow ? step >= step_ : step == step_);
  if (now_ && slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void FaultInjection::strike() {
  switch (kind_) {
    case Fault::kill:
      ::kill(::getpid(), SIGKILL);
      return;
    case Fault::hang:
      ::kill(::getpid(), SIGSTOP);
      return;
    case Fault::exception:
      throw std::runtime_error("the exception that fault.do asked for");
    case Fault::extra_collective:
      communicator_.all_reduce(at::zeros({1}, at::TensorOptions().device(communicator_.device())), "fault").wait();
      return;
    case Fault::nan:
    case Fault::nan_loss:
    case Fault::nan_weights:
    case Fault::slow:
    case Fault::none:
      return;
  }
}

modules::Layer FaultInjection::around(modules::Layer layer) {
  return [this, layer = std::move(layer)](const modules::Stream& stream, const modules::StepContext& context) {
    if (now_) strike();
    return layer(stream, context);
  };
}

void FaultInjection::before_reduce(sharding::ShardedParameterGroup& group) {
  if (!now_) return;
  if (kind_ == Fault::nan) group.full_gradients().front().flatten().narrow(0, 0, 1).fill_(kNan);
  if (kind_ == Fault::nan_weights) group.master().narrow(0, 0, 1).fill_(kNan);
}

at::Tensor FaultInjection::change(const at::Tensor& loss) const {
  return now_ && kind_ == Fault::nan_loss ? at::full_like(loss, kNan) : loss;
}

}  // namespace strata::trainer
