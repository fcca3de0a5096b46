// SPDX-License-Identifier: MIT
// One op at one size, as it is proved at its full size, timed and planned; and the work it must do there at least.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation/activation_kind.h"
#include "kernels/neighbor_aggregate/reduction.h"

namespace strata::kernels {

// What an op does not have is left at its default.
struct OpShape {
  std::string op;
  int64_t rows = 0;     // of attention and rotary: batch x positions
  int64_t width = 0;    // elements of a row: of the output (swiglu), of the table (embedding), of the vocabulary
                        // (cross_entropy), of a head (attention, rotary, neighbor_attention), of the whole (adamw,
                        // global_norm; rows is 1)
  int64_t outputs = 0;  // linear: elements of a row of the output; embedding: rows of the table; linear_cross_entropy:
                        // classes
  int64_t positions = 0;  // attention, rotary
  int64_t heads = 0, key_value_heads = 0;
  int64_t edges = 0;                     // neighbor_aggregate, neighbor_attention: of a graph with `rows` targets
  int64_t sources = 0;                   // of that graph; 0: as many as targets
  Reduction reduction = Reduction::sum;  // neighbor_aggregate
  bool weighted = false;                 // neighbor_aggregate: by the edge
  bool causal = true;
  Activation activation = Activation::none;  // activation, linear
  bool bias = false;                         // linear, layer_norm
  bool deterministic = false;                // attention: under at::globalContext().deterministicAlgorithms()

  bool operator==(const OpShape&) const = default;
};

// "16384x4096", "65536x768->3072 gelu_tanh bias", "8x1024 positions, 12 heads of 64, causal"
std::string text(const OpShape& shape);

// What must be done once: every input read, every result written, every product taken. bytes 0: there is nothing to do.
struct Work {
  double bytes = 0, flops = 0;
};

// `element` is the size of the dtype in bytes. backward: of the op's gradients, given those of its results.
Work forward_work(const OpShape& shape, double element);
Work backward_work(const OpShape& shape, double element);
// An update reads and writes the master weights and two moments in fp32, reads the gradient and writes the compute
// copy, which have a size of their own; 0: there is no compute copy. As a shape, adamw has both in the dtype.
Work adamw_work(double elements, double gradient, double compute_copy);

}  // namespace strata::kernels
