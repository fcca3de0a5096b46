// SPDX-License-Identifier: MIT
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>

#include <utility>

#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary_shape.h"

namespace strata::kernels {
namespace {

int64_t packed_width(const RmsNormRotaryShape& s) { return (s.heads + 2 * s.key_value_heads) * s.head_width; }

OpCase rms_norm_rotary_case(const RmsNormRotaryShape& s, const std::string& name, const Tensor& qkv) {
  const Tensor angle = random_angles(s.positions, s.head_width);
  OpCase result{s,
                "rms_norm_rotary_" + name,
                {qkv, random_weight(s.head_width), random_weight(s.head_width)},
                2,
                [s, angle](const Leaves& leaves, Level level) -> Leaves {
                  const Tensor cosine = at::cos(angle).to(leaves[0].device());
                  const Tensor sine = at::sin(angle).to(leaves[0].device());
                  return {rms_norm_rotary(leaves[0], {leaves[1], leaves[2]}, cosine, sine, s.heads, s.key_value_heads,
                                          kNormEpsilon, level)};
                }};
  result.row_width = s.head_width;
  return result;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  std::vector<Sizes> all = head_sizes();
  all.push_back({1, 40, 3, 1, 80});   // a team of threads that has more threads than vectors
  all.push_back({2, 170, 4, 2, 64});  // several blocks of the backward
  all.push_back({1, 9, 1, 1, 240});
  for (const Sizes& sizes : all) {
    const RmsNormRotaryShape s{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    cases.push_back(rms_norm_rotary_case(s, sizes_text(sizes), random({s.batch, s.positions, packed_width(s)})));
  }
  const RmsNormRotaryShape s{1, 33, 3, 3, 10};
  const Sizes packed = {s.batch, s.positions, packed_width(s)};
  cases.push_back(rms_norm_rotary_case(s, "zero", zero_rows(packed)));
  cases.push_back(rms_norm_rotary_case(s, "offset", offset_rows(packed)));
  cases.push_back(rms_norm_rotary_case(s, "outlier", outlier_rows(packed)));
  return cases;
}

// Parts are sequences.
Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const RmsNormRotaryShape& s = *shape.as<RmsNormRotaryShape>();
  Workload w{shape};
  w.row_elements = s.positions * packed_width(s);
  w.row_width = s.head_width;
  w.inputs.leaves = {random({s.batch, s.positions, packed_width(s)}, options), random_weight(s.head_width, options),
                     random_weight(s.head_width, options)};
  const Tensor angle = random_angles(s.positions, s.head_width, options);
  w.inputs.constants = {at::cos(angle), at::sin(angle)};
  w.run = [heads = s.heads, shared = s.key_value_heads](const Inputs& in, Level level) -> Leaves {
    return {rms_norm_rotary(in.leaves[0], {in.leaves[1], in.leaves[2]}, in.constants[0], in.constants[1], heads, shared,
                            kNormEpsilon, level)};
  };
  w.has_backward = [](Level level) { return RmsNormRotaryOp::kKernels.slot(level).backward != nullptr; };
  w.backward_in_place = [heads = s.heads, shared = s.key_value_heads](Tensor gradient, const Inputs& in, Level level) {
    const RmsNormRotaryOp::Arguments a{
        in.leaves[0], {in.leaves[1], in.leaves[2]}, in.constants[0], in.constants[1], heads, shared, kNormEpsilon};
    RmsNormRotaryOp::kKernels.slot(level).backward(std::move(gradient), a, {});
  };
  return w;
}

}  // namespace

OpProof rms_norm_rotary_proof() {
  return {
      .tolerances = {{"rms_norm_rotary"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {RmsNormRotaryShape{
          .batch = 3, .positions = 12, .heads = 4, .key_value_heads = 2, .head_width = 8}},
      .gpu_shapes = {RmsNormRotaryShape{
          .batch = 4, .positions = 4096, .heads = 16, .key_value_heads = 8, .head_width = 128}},
      .cpu_shapes = {RmsNormRotaryShape{
          .batch = 4, .positions = 256, .heads = 8, .key_value_heads = 2, .head_width = 64}},
  };
}

}  // namespace strata::kernels
