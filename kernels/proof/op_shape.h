// SPDX-License-Identifier: MIT
// The size of one op, for proofs at full size, timing and plans; and the minimal work of the op at this size.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation/activation_kind.h"
#include "kernels/neighbor_aggregate/reduction.h"

namespace strata::kernels {

// Members that an op does not use keep their defaults.
struct OpShape {
  std::string op;
  int64_t rows = 0;  // attention and rotary: batch x positions
  // Elements of a row: of the output (swiglu), of the table (embedding), of the vocabulary (cross_entropy), of a head
  // (attention, rotary, neighbor_attention), of the whole tensor (adamw, global_norm; rows is 1).
  int64_t width = 0;
  // linear: elements of a row of the output. embedding: rows of the table. linear_cross_entropy: classes.
  int64_t outputs = 0;
  int64_t positions = 0;  // attention, rotary
  int64_t heads = 0, key_value_heads = 0;
  int64_t edges = 0;                     // neighbor_aggregate, neighbor_attention: edges of a graph with `rows` targets
  int64_t sources = 0;                   // sources of that graph; 0: as many as targets
  Reduction reduction = Reduction::sum;  // neighbor_aggregate
  bool weighted = false;                 // neighbor_aggregate: with edge weights
  bool causal = true;
  Activation activation = Activation::none;  // activation, linear
  bool bias = false;                         // linear, layer_norm
  bool deterministic = false;                // attention: with at::globalContext().deterministicAlgorithms()

  bool operator==(const OpShape&) const = default;
};

// Examples: "16384x4096", "65536x768->3072 gelu_tanh bias", "8x1024 positions, 12 heads of 64, causal".
std::string text(const OpShape& shape);

// The minimal work: every input is read, every result written and every product computed once. bytes 0: there is no
// work.
struct Work {
  double bytes = 0, flops = 0;
};

// `element` is the size of the dtype in bytes. The backward computes the op's gradients from those of its results.
Work forward_work(const OpShape& shape, double element);
Work backward_work(const OpShape& shape, double element);
// An update reads and writes the master weights and two moments in fp32, reads the gradient and writes the compute
// copy. `gradient` and `compute_copy` are bytes of an element; compute_copy 0: there is none. As a shape, adamw has
// both in the dtype.
Work adamw_work(double elements, double gradient, double compute_copy);

}  // namespace strata::kernels
