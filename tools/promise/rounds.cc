// SPDX-License-Identifier: MIT
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/steady_seconds.h"
#include "tools/promise/measurements.h"

namespace strata::tools {
namespace {

using kernels::Inputs;
using kernels::Tensor;

constexpr int64_t kFewestRounds = 7, kMostRounds = 200, kWarmUps = 2;
// Each layer has weights and activations of its own. At most kMostLayers layers stand for all,
// and fewer if their inputs take more than kMostBytes.
constexpr int64_t kMostLayers = 8, kMostBytes = int64_t{2} << 30;

// One op with a set of inputs for each layer.
class Layers {
 public:
  Layers(TimedOp& op, int64_t most) : op_(op), count_(std::min(op.calls.calls, most)) {
    for (int64_t i = 0; i < count_; ++i) {
      inputs_.push_back(kernels::fresh_inputs(op.workload));
      std::vector<Tensor>& leaves = leaves_.emplace_back(inputs_.back().leaves);
      if (op.calls.input_gradient) continue;
      leaves.erase(leaves.begin());
      inputs_.back().leaves[0].requires_grad_(false);
    }
    results_.resize(inputs_.size());
    differentiable_ = op.workload.differentiable && !op.workload.timed_whole && !leaves_[0].empty();
  }

  void forward(int64_t layer) {
    if (layer >= count_) return;
    const kernels::DeterministicScope scope(op_.workload, op_.calls.level);
    const auto at = static_cast<size_t>(layer);
    const double start = steady_seconds();
    if (op_.workload.timed_whole) {
      torch::autograd::grad(op_.workload.run(inputs_[at], op_.calls.level), leaves_[at]);
    } else {
      results_[at] = op_.workload.run(inputs_[at], op_.calls.level);
    }
    forward_ += steady_seconds() - start;
    if (differentiable_ && gradients_.empty()) gradients_ = kernels::random_gradients(results_[at]);
  }

  void backward(int64_t layer) {
    if (layer >= count_) return;
    const auto at = static_cast<size_t>(layer);
    if (differentiable_) {
      const kernels::DeterministicScope scope(op_.workload, op_.calls.level);
      const double start = steady_seconds();
      if (op_.workload.backward_in_place && op_.workload.has_backward(op_.calls.level)) {
        op_.workload.backward_in_place(results_[at][0].detach(), inputs_[at], op_.calls.level);
      } else {
        torch::autograd::grad(results_[at], leaves_[at], gradients_);
      }
      results_[at].clear();
      backward_ += steady_seconds() - start;
    }
    results_[at].clear();
  }

  void end_round(bool counts) {
    const auto count = static_cast<double>(count_);
    if (counts) op_.times.forward.push_back(forward_ / count);
    if (counts && differentiable_) op_.times.backward.push_back(backward_ / count);
    forward_ = backward_ = 0;
  }

 private:
  TimedOp& op_;
  const int64_t count_;
  std::vector<Inputs> inputs_;
  std::vector<std::vector<Tensor>> leaves_, results_;
  std::vector<Tensor> gradients_;
  bool differentiable_ = true;
  double forward_ = 0, backward_ = 0;
};

// The number of sets of inputs that fit.
int64_t most_layers(const std::vector<TimedOp>& ops) {
  int64_t bytes = 1;
  for (const TimedOp& op : ops) {
    for (const Tensor& leaf : op.workload.inputs.leaves) bytes += static_cast<int64_t>(leaf.nbytes());
  }
  return std::clamp<int64_t>(kMostBytes / bytes, 1, kMostLayers);
}

}  // namespace

void time_rounds(std::vector<TimedOp>& ops, double seconds) {
  const int64_t most = most_layers(ops);
  std::vector<Layers> forward, updates;
  for (TimedOp& op : ops) (op.calls.part == trainer::StepPart::optimizer ? updates : forward).emplace_back(op, most);
  const double start = steady_seconds();
  for (int64_t round = 0; round < kMostRounds; ++round) {
    if (round >= kWarmUps + kFewestRounds && steady_seconds() - start > seconds) break;
    for (int64_t layer = 0; layer < most; ++layer) {
      for (Layers& op : forward) op.forward(layer);
    }
    for (int64_t layer = most - 1; layer >= 0; --layer) {
      for (auto op = forward.rbegin(); op != forward.rend(); ++op) op->backward(layer);
    }
    for (Layers& op : updates) {
      for (int64_t layer = 0; layer < most; ++layer) {
        op.forward(layer);
        op.backward(layer);
      }
    }
    for (std::vector<Layers>* all : {&forward, &updates}) {
      for (Layers& op : *all) op.end_round(/*counts=*/round >= kWarmUps);
    }
  }
}

}  // namespace strata::tools
