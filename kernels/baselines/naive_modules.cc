// SPDX-License-Identifier: MIT
// B batch, T positions, H heads, K key heads, D head width
#include "kernels/baselines/naive_modules.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>

#include <cmath>
#include <limits>
#include <vector>

namespace strata::kernels::baselines {
namespace {

// [B, T, heads * D] -> [B, heads, T, D]
Tensor by_head(const Tensor& x, int64_t heads) { return x.unflatten(2, {heads, -1}).transpose(1, 2); }

Tensor rotated(const Tensor& x_BHTD, const AttentionOptions& options) {
  if (!options.cosine.defined()) return x_BHTD;
  const std::vector<Tensor> halves = x_BHTD.chunk(2, -1);
  const Tensor rotated = at::cat({-halves[1], halves[0]}, -1);
  return x_BHTD * options.cosine.to(x_BHTD.scalar_type()) + rotated * options.sine.to(x_BHTD.scalar_type());
}

}  // namespace

Parameters part_of(const Parameters& all, const std::string& name) {
  Parameters part;
  for (const auto& [key, tensor] : all) {
    if (key.starts_with(name + ".")) part[key.substr(name.size() + 1)] = tensor;
  }
  return part;
}

Tensor linear(const Parameters& parameters, const Tensor& x) {
  const auto bias = parameters.find("bias");
  if (bias == parameters.end()) return at::linear(x, parameters.at("weight"));
  return at::linear(x, parameters.at("weight"), bias->second);
}

Tensor layer_norm(const Parameters& parameters, const Tensor& x, double epsilon) {
  return at::layer_norm(x, {x.size(-1)}, parameters.at("weight"), parameters.at("bias"), epsilon);
}

Tensor rms_norm(const Parameters& parameters, const Tensor& x, double epsilon) {
  const Tensor wide = x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
  const Tensor normed = wide * at::rsqrt(at::mean(wide * wide, {-1}, /*keepdim=*/true) + epsilon);
  return normed.to(x.scalar_type()) * parameters.at("weight");
}

Tensor attention(const Parameters& parameters, const Tensor& x, const AttentionOptions& options) {
  const auto projected = [&](const char* name) { return linear(part_of(parameters, name), x); };
  const Tensor query = rotated(by_head(projected("query"), options.heads), options);
  Tensor key = rotated(by_head(projected("key"), options.key_value_heads), options);
  Tensor value = by_head(projected("value"), options.key_value_heads);
  if (options.key_value_heads != options.heads) {
    key = key.repeat_interleave(options.heads / options.key_value_heads, 1);
    value = value.repeat_interleave(options.heads / options.key_value_heads, 1);
  }
  Tensor scores = at::matmul(query, key.transpose(-2, -1)) / std::sqrt(static_cast<double>(query.size(-1)));
  if (options.later.defined()) {
    scores = scores.masked_fill(options.later, -std::numeric_limits<double>::infinity());
  }
  const Tensor attended = at::matmul(at::softmax(scores, -1), value);
  return linear(part_of(parameters, "output"), attended.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
}

Tensor mlp(const Parameters& parameters, const Tensor& x, const std::string& approximate) {
  return linear(part_of(parameters, "down"), at::gelu(linear(part_of(parameters, "up"), x), approximate));
}

Tensor swiglu(const Parameters& parameters, const Tensor& x) {
  const Tensor gate = at::silu(linear(part_of(parameters, "gate"), x));
  return linear(part_of(parameters, "down"), gate * linear(part_of(parameters, "up"), x));
}

Tensor sage_convolution(const Parameters& parameters, const Tensor& x, const Tensor& sources, const Tensor& targets) {
  const Tensor sum = at::zeros_like(x).index_add(0, targets, x.index_select(0, sources));
  // Neighbors are counted in fp32, because bf16 has no odd numbers above 256. at::bincount would wait for the GPU.
  const at::TensorOptions count_options = x.options().dtype(at::kFloat);
  const Tensor degree =
      at::zeros({x.size(0)}, count_options).index_add(0, targets, at::ones(targets.sizes(), count_options));
  const Tensor mean = sum / degree.clamp_min(1).to(x.scalar_type()).unsqueeze(1);
  return linear(part_of(parameters, "self"), x) + linear(part_of(parameters, "neighbor"), mean);
}

}  // namespace strata::kernels::baselines
