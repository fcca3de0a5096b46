// SPDX-License-Identifier: MIT
// Watches one step for the first layer whose output or gradient is not finite although its inputs were, and keeps what
// is needed to run that layer alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/replay/op_check.h"
#include "tools/replay/saved_layer.h"
#include "trainer/ledger/step_observer.h"

namespace strata::tools {

class NonfiniteSearch : public trainer::StepObserver {
 public:
  struct Found {
    int64_t event = 0;  // number of the place in the step; ranks count the same places, so the numbers can be compared
    std::string place;  // "micro-batch 0, layer 2 (blocks.2), forward"
    std::string op;  // the first op in the layer with a result that is not finite; empty if no op of LibTorch had one
    std::optional<SavedLayer> layer;  // absent if the value was not in a layer, or if the layer cannot be run alone
    std::string why_not;              // why the layer is absent
  };

  // `layers` are the names of the groups of the layers, in their order.
  explicit NonfiniteSearch(std::vector<std::string> layers) : names_(std::move(layers)) {}

  void arm() override { armed_ = true; }
  modules::Layer wrap_layer(int64_t index, modules::Layer layer) override;
  void begin(const std::vector<sharding::ShardedParameterGroup*>& groups,
             const std::map<std::string, at::Tensor>& amax) override;
  void gradients(const sharding::ShardedParameterGroup& group) override;
  void after_backward() override;
  void end() override;

  const std::optional<Found>& found() const { return found_; }

 private:
  using Pair = std::array<at::Tensor, 2>;  // tensors of a stream: residual, branch

  // One call of a layer. It is emptied when its backward has ended.
  struct Call {
    int64_t layer = 0;
    Pair input, output, output_gradient, input_gradient;
    modules::StepContext context;
  };

  modules::ResidualStream watched(int64_t index, const modules::Layer& layer, const modules::ResidualStream& stream,
                                  const modules::StepContext& context);
  void backward_begins(const std::shared_ptr<Call>& call);
  void backward_ends();
  void found_in(const Call& call, bool backward);
  void found_outside(const std::string& place);
  void complete(const Call& call);
  sharding::ShardedParameterGroup& group_of(const Call& call) const { return *groups_.at(names_.at(call.layer)); }

  const std::vector<std::string> names_;
  bool armed_ = false, watching_ = false;
  std::map<std::string, sharding::ShardedParameterGroup*> groups_;
  std::map<std::string, at::Tensor> amax_;  // amax of modules whose scales are delayed, in this step
  OpCheck ops_;
  size_t first_op_ = 0;  // index of the first op of the forward or backward that runs
  int64_t micro_batch_ = 0, event_ = 0;
  std::shared_ptr<Call> in_backward_;  // null outside of the backward of a layer
  std::shared_ptr<Call> found_call_;   // waits for the gradients of its outputs
  std::optional<Found> found_;
};

}  // namespace strata::tools
