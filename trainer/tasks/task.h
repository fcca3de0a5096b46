// SPDX-License-Identifier: MIT
// A task: a model, its batches, its loss and its metric. There is one task per kind of work. The loop knows only this
// class and the optional powers in task_powers.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "modules/config/module.h"
#include "modules/layer.h"
#include "modules/scope.h"
#include "trainer/config/trainer_config.h"
#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

using at::Tensor;

// The values of a run that a task reads, apart from its model and its data.
struct TaskSettings {
  uint64_t seed = 1;
  int64_t batch = 0;                    // samples per step, over all ranks
  modules::OpPlacement placement = {};  // ops that the run fuses, or leaves to the task
  PrecisionConfig precision = {};
};

class Task {
 public:
  virtual ~Task() = default;

  // Constructs the model of declared_model() in the scope of a whole model. It is called before all functions below,
  // and a second call replaces the model.
  virtual void build_model(const modules::Scope& scope, at::Device device) = 0;
  // Replaces each layer of the model by the result of `wrap`.
  virtual void wrap_layers(const modules::WrapLayer& wrap) = 0;

  // Returns `count` samples of the endless training order, from `first_sample` on.
  virtual MicroBatch training_batch(int64_t first_sample, int64_t count) const = 0;
  // A batch of the same shapes and types. A task without data returns tensors of device meta.
  virtual MicroBatch example_batch(int64_t count) const { return training_batch(0, count); }
  // An item is a token, an image or a node: the loss is a mean over items, and throughput counts them.
  virtual int64_t items_per_sample() const = 0;
  virtual std::string item_name() const = 0;

  virtual int64_t evaluation_samples() const = 0;
  // Returns the number of items in the first `samples` evaluation samples. `sums` are their evaluation_sums.
  virtual int64_t evaluation_items(int64_t samples, const Tensor& sums) const = 0;
  // Returns `count` samples from `first_sample` on. Samples from `end` on count nothing; `end` is at most
  // evaluation_samples().
  virtual MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const = 0;
  // Returns fp64 [n], sums over the items of the batch: first the losses in nats, then the values whose means metrics()
  // needs. No gradients are computed.
  virtual Tensor evaluation_sums(const MicroBatch& batch) const = 0;
  // Returns the metrics other than the mean loss. `means` are the sums above divided by the number of items.
  virtual std::map<std::string, double> metrics(const std::vector<double>& means) const = 0;

  // Returns scale * sum of the losses of the items. `dropout_key` undefined: no dropout.
  virtual Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const = 0;

  // Identifies the data. It is equal on all ranks and stored in checkpoints.
  virtual std::string data_fingerprint() const = 0;
};

// Returns the task of a configuration.
std::unique_ptr<Task> make_task(const TrainerConfig& config);

// The task for a configuration whose data are not read: only build_model, wrap_layers, example_batch and loss may be
// called. Returns null if the sizes of its batches are known from the data alone, as for graphs.
std::unique_ptr<Task> make_task_without_data(const TrainerConfig& config);

}  // namespace strata::trainer
