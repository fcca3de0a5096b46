// SPDX-License-Identifier: MIT
// Shards a task's model over ranks: it gives modules their parameters, and wraps their layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "sharding/parameters/device_mesh.h"
#include "sharding/parameters/fully_sharded_layers.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "sharding/parameters/slot_pool.h"
#include "trainer/config/trainer_config.h"
#include "trainer/layout/slot_counts.h"
#include "trainer/model/amax_history.h"
#include "trainer/model/weight_scales.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// The parameters of a model in the groups that it declares. The root (embedding, final norm, tied head) and an untied
// head stay gathered for the whole step, in buffers of their own. Layers share the slots of a pool.
class ShardedModel {
 public:
  struct Options {
    at::Device device = at::kCPU;
    bool poison_slots = false;           // fills released slots with NaN, for tests
    modules::WrapLayer wrap_layer = {};  // called for each layer, inside of its sharding: timing, faults
    bool initialized = true;             // false: weights stay zero, if only sizes matter
  };
  // Constructs and initializes the groups, builds the task's model on their parameters and wraps its layers. The mesh
  // and the task must outlive this object.
  ShardedModel(const TrainerConfig& config, Task& task, const sharding::DeviceMesh& mesh, Options options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  void begin_step();
  void set_last_micro_batch(bool last) { last_micro_batch_ = last, layers_->set_last_micro_batch(last); }
  // Call it after each backward. After the backward of the last micro-batch it waits for all gradients.
  void finish_backward();
  // Reshards the parameters, before they change or after a forward without backward.
  void reshard();

  // One group for each group of declared_model(), in the same order.
  const std::vector<sharding::ShardedParameterGroup*>& groups() const { return groups_; }
  // `observe` is called for each group when its gradients are complete on this rank, before they are reduced. Empty:
  // nothing is called.
  void set_before_reduce(sharding::ShardedParameterGroup::BeforeReduce observe);

  // Bytes that are allocated for parameters, gradients, scales and histories: shards and slots among them.
  int64_t bytes() const;
  // Bytes that the task allocated on the device as it built its model: graphs, features, targets, rotary tables.
  int64_t bytes_of_task() const { return bytes_of_task_; }

  // The histories from which delayed scales follow; without such scales it is off.
  AmaxHistory& amax_history() { return *amax_history_; }
  const AmaxHistory& amax_history() const { return *amax_history_; }

  // Layers with `sparsity` multiply with pruned weights if this is true, as at first, and with dense weights otherwise.
  // Call it between steps. A captured step does not see the change.
  void set_prunes(bool prunes) { *prunes_ = prunes; }
  bool prunes() const { return *prunes_; }

 private:
  void add_pools(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table);
  sharding::SlotPool* add_weight_pool(int64_t slots, int64_t elements, at::ScalarType type);
  sharding::SlotPool* add_gradient_pool(int64_t slots, int64_t elements, at::ScalarType type);
  void add_group(const BufferRules& rules, const modules::ParameterGroup& parameters);
  // An untied head is computed after the last layer, in the loss. So the forward of the wrapped layer waits until the
  // head is gathered, and its backward begins with the reduction of the head's gradient, which is complete then.
  modules::Layer wrap_last_layer_for_head(modules::Layer layer);
  void start_reduce_of_the_head();
  Tensor parameter(const std::string& name) const;

  Task& task_;
  const sharding::DeviceMesh& mesh_;
  Options options_;
  std::vector<std::unique_ptr<sharding::SlotPool>> pools_;
  std::map<FloatType, sharding::SlotPool*> weight_slots_, gradient_slots_;  // the pools that layers share
  std::optional<WeightScales> weight_scales_;                               // nothing: no weight travels as codes
  std::vector<std::unique_ptr<sharding::ShardedParameterGroup>> owned_;
  std::vector<sharding::ShardedParameterGroup*> groups_;
  sharding::ShardedParameterGroup *root_ = nullptr, *head_ = nullptr;  // null if the model has no such group
  std::unique_ptr<sharding::FullyShardedLayers> layers_;
  std::optional<AmaxHistory> amax_history_;  // set by the constructor
  const std::shared_ptr<bool> prunes_ = std::make_shared<bool>(true);
  bool last_micro_batch_ = true, head_is_reduced_ = false;
  int64_t bytes_of_task_ = 0;
};

}  // namespace strata::trainer
