// SPDX-License-Identifier: MIT
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/rotary/rotary.h"
#include "kernels/rotary/rotary_shape.h"

namespace strata::kernels {
namespace {

// Returns a copy that rotary may overwrite. It is aligned only if the leaf is.
Tensor given_away(const Tensor& leaf) {
  if (leaf.storage_offset() % 2 == 0) return leaf.mul(1.0);
  return at::cat({at::zeros({1}, leaf.options()), leaf.flatten()}).narrow(0, 1, leaf.numel()).view(leaf.sizes());
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : head_sizes()) {
    const RotaryShape s{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Tensor angle = random_angles(s.positions, s.head_width);
    OpCase rotary_case{s,
                       "rotary_" + sizes_text(sizes),
                       {random({s.batch, s.positions, (s.heads + 2 * s.key_value_heads) * s.head_width})},
                       0,
                       [s, angle](const Leaves& leaves, Level level) -> Leaves {
                         const Tensor cosine = at::cos(angle).to(leaves[0].device());
                         const Tensor sine = at::sin(angle).to(leaves[0].device());
                         return {rotary(given_away(leaves[0]), cosine, sine, s.heads, s.key_value_heads, level)};
                       }};
    rotary_case.row_width = s.head_width;
    cases.push_back(rotary_case);
  }
  return cases;
}

// Parts are sequences.
Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const RotaryShape& s = *shape.as<RotaryShape>();
  const int64_t packed = (s.heads + 2 * s.key_value_heads) * s.head_width;
  Workload w{shape};
  w.row_elements = s.positions * packed;
  w.row_width = s.head_width;
  w.inputs.leaves = {random({s.batch, s.positions, packed}, options)};
  const Tensor angle = random_angles(s.positions, s.head_width, options);
  w.inputs.constants = {at::cos(angle), at::sin(angle)};
  w.run = [heads = s.heads, shared = s.key_value_heads](const Inputs& in, Level level) -> Leaves {
    return {rotary(in.leaves[0], in.constants[0], in.constants[1], heads, shared, level)};
  };
  w.has_backward = [](Level level) { return RotaryOp::kKernels.slot(level).backward != nullptr; };
  w.backward_in_place = [heads = s.heads, shared = s.key_value_heads](Tensor gradient, const Inputs& in, Level level) {
    RotaryOp::kKernels.slot(level).backward(std::move(gradient), in.constants[0], in.constants[1], heads, shared);
  };
  return w;
}

}  // namespace

OpProof rotary_proof() {
  return {
      .tolerances = {{"rotary"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {RotaryShape{.batch = 3, .positions = 12, .heads = 4, .key_value_heads = 2, .head_width = 8}},
      .gpu_shapes = {RotaryShape{.batch = 2, .positions = 8192, .heads = 32, .key_value_heads = 8, .head_width = 128}},
      .cpu_shapes = {RotaryShape{.batch = 4, .positions = 256, .heads = 8, .key_value_heads = 2, .head_width = 64}},
  };
}

}  // namespace strata::kernels
