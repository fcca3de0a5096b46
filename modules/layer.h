// SPDX-License-Identifier: MIT
// What flows between layers, what a layer may need besides, and what a layer is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace strata::modules {

using at::Tensor;

// The activation is residual + branch. A pending branch is added by the next layer's norm in one pass.
struct Stream {
  Tensor residual, branch;  // [B, T, D], of graphs [nodes, D]; branch undefined: nothing pending
};

// What a module is given, in the type of its own parameters.
inline Stream in_type(const Stream& stream, at::ScalarType type) {
  return {stream.residual.to(type), stream.branch.defined() ? stream.branch.to(type) : Tensor()};
}

struct GraphStep;

// Needed by some layers in every step; made once per micro-batch by the task.
struct StepContext {
  Tensor rotary_cosine, rotary_sine;  // [T, D / (2 * heads)], fp32; undefined without rotary positions
  Tensor dropout_key;                 // int64 [1] on the device: mixes run.seed and the step; undefined: no dropout
  int64_t first_row = 0;           // global row (sequence x position) of this micro-batch: masks do not depend on ranks
  bool makes_cheap_again = false;  // outputs of norms and activations are not kept for the backward: see made_again.h
  std::shared_ptr<const GraphStep> graph = {};  // of graph networks; see graph_step.h
};

using Layer = std::function<Stream(const Stream&, const StepContext&)>;

}  // namespace strata::modules
