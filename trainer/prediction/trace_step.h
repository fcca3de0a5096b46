// SPDX-License-Identifier: MIT
// Finds the memory of a step besides parameters and optimizer, and the shapes of its ops, by running it on tensors
// without values.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/runtime/op_shape.h"
#include "kernels/runtime/traced.h"
#include "trainer/config/trainer_config.h"
#include "trainer/prediction/step_calls.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// An op at a shape, and the number of its calls.
struct UsedShape {
  kernels::OpShape shape;
  std::set<at::ScalarType> dtypes;  // types of its elements; for adamw, types of the gradients
  int64_t calls = 1;                // calls with all dtypes
};

// Sizes in bytes, of one rank.
struct StepTrace {
  int64_t task = 0;     // what the task keeps on the device: graphs, features, targets, rotary tables
  int64_t batches = 0;  // inputs and targets; on GPUs two stages of the feed and what the step reads
  // Bytes that the forward of each layer leaves for its backward and for the next layer.
  std::vector<int64_t> kept_by_layer;
  int64_t kept = 0;        // what all layers have left when the loss begins
  int64_t peak = 0;        // activations, gradients and what ops need while they run: the most that lives at once
  std::string peak_place;  // where the peak is reached: "the loss", "the backward of layer 11"
  int64_t evaluation = 0;  // what the forward of an evaluation takes, of one micro-batch
  std::optional<int64_t> backward_of = {};  // the layer, if the peak is in the backward of a layer
  bool calls_cublas = false;                // on GPUs: linear layers or attention call libraries
  // The ops that a whole graph computes once, the forward calls of one micro-batch, in the order of the first calls,
  // and the updates of one step. A recomputed forward counts as a call.
  std::vector<UsedShape> shapes;
};

// The device of a trace: GPUs unless run.device is cpu. This machine needs none.
c10::DeviceType device_of_trace(sharding::DeviceSetting run_device);

// Runs the forward and the backward of a step of a rank on tensors of device meta, through the code that trains:
// sharding, recomputation, the ops at their levels. Levels that were not measured yet (`best` without a plan) count as
// cuda on GPUs and as aten on CPUs, and attention as triton or aten if cuda does not take the attention of all layers.
// Memory that libraries take for themselves is not in it: oneDNN for products in 16 bits on CPUs (325 kB for 64 x
// 192, 1.1 MB for 768 x 768), cuBLASLt up to 32 MiB for products that are not in FP8. The model of `task` is replaced.
// `calls`, unless it is null, receives the calls of the step, and `blocks` all that forwards and backwards allocate: at
// its most, StepTrace::peak. A step of many micro-batches is traced for two.
StepTrace trace_step(TrainerConfig config, Task& task, int rank = 0, StepCalls* calls = nullptr,
                     std::vector<kernels::TracedBlock>* blocks = nullptr);

// The same without data. Returns nothing if the sizes of batches are known from the data alone.
std::optional<StepTrace> trace_step_without_data(const TrainerConfig& config);

// Returns the task of a run for trace_step. The data are read only if the sizes of batches are known from them alone.
std::unique_ptr<Task> task_to_trace(const TrainerConfig& config);

// The shapes of a trace of the run on this type of device, with the task of task_to_trace.
std::vector<UsedShape> used_shapes(TrainerConfig config, c10::DeviceType device);

// Returns the used_shapes with head and loss as two ops, and then with both fused into linear_cross_entropy, unless
// fusion is impossible or a line of `kernels.modules` sets the level of the head.
std::vector<std::vector<UsedShape>> shapes_by_head(TrainerConfig config, c10::DeviceType device);

}  // namespace strata::trainer
