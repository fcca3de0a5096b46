// SPDX-License-Identifier: MIT
// Modules in plain PyTorch: the code that the modules of Strata are timed against. Each step is an operator of its own.
// A product with its bias is one operator, as nn.Linear is, and so is layer norm. Autograd differentiates all of it. It
// runs in any dtype, and in fp64 it is the definition.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace strata::kernels::baselines {

using at::Tensor;

// Parameters by their names in a module: "attention.query.weight".
using Parameters = std::map<std::string, Tensor>;

// A part of a module's parameters: part_of(all, "attention") has "query.weight".
Parameters part_of(const Parameters& all, const std::string& name);

// y = x weight^T, then the bias, if there is one: x [..., in], weight [out, in].
Tensor linear(const Parameters& parameters, const Tensor& x);
Tensor layer_norm(const Parameters& parameters, const Tensor& x, double epsilon);
// x / sqrt(mean(x^2) + epsilon), rounded to the dtype of x, and then weight.
Tensor rms_norm(const Parameters& parameters, const Tensor& x, double epsilon);

// Self-attention with weights of their own for query, key and value. All scores are in memory. Mask and tables are made
// once for all calls, as models in PyTorch do it.
struct AttentionOptions {
  int64_t heads = 0, key_value_heads = 0;
  Tensor later = {};              // bool [T, T]: true where a key is later than the query; not defined: not causal
  Tensor cosine = {}, sine = {};  // [T, D], both halves equal; rotates in the order of kernels/rotary/rotary.h
};
Tensor attention(const Parameters& parameters, const Tensor& x, const AttentionOptions& options);

// down(gelu(up(x))). `approximate` is "tanh" or "none".
Tensor mlp(const Parameters& parameters, const Tensor& x, const std::string& approximate);
// down(silu(gate(x)) * up(x))
Tensor swiglu(const Parameters& parameters, const Tensor& x);

// The mean of the neighbors of each node, which are gathered for each edge: self(x) + neighbor(mean), as PyG's SAGEConv
// without its sparse kernels. sources and targets are int64 [edges].
Tensor sage_convolution(const Parameters& parameters, const Tensor& x, const Tensor& sources, const Tensor& targets);

}  // namespace strata::kernels::baselines
