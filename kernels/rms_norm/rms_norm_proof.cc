// SPDX-License-Identifier: MIT
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_shape.h"

namespace strata::kernels {
namespace {

void add_cases(const Sizes& sizes, bool far, std::vector<OpCase>& cases) {
  const auto rows = [&] { return far ? random_far(sizes) : random(sizes); };
  const Tensor weight = random_weight(sizes.back());
  const std::string suffix = (far ? "far_" : "") + sizes_text(sizes);
  RmsNormShape shape{.rows = rows_of(sizes), .width = sizes.back()};
  cases.push_back({shape, "rms_norm_" + suffix, {rows(), weight}, 1, [](const Leaves& leaves, Level level) -> Leaves {
                     return {rms_norm(leaves[0], leaves[1], kNormEpsilon, level)};
                   }});
  shape.adds = true;
  cases.push_back({shape,
                   "add_rms_norm_" + suffix,
                   {rows(), rows(), weight},
                   1,
                   [](const Leaves& leaves, Level level) -> Leaves {
                     const auto [y, sum] = add_rms_norm(leaves[0], leaves[1], leaves[2], kNormEpsilon, level);
                     return {y, sum};
                   },
                   true,
                   2});
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    add_cases(sizes, /*far=*/false, cases);
    if (has_far_case(sizes)) add_cases(sizes, /*far=*/true, cases);
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const RmsNormShape& s = *shape.as<RmsNormShape>();
  Workload w{shape};
  w.split_leaves = w.split_results = s.adds ? 2 : 1;
  w.row_elements = s.width;
  for (size_t i = 0; i < w.split_leaves; ++i) w.inputs.leaves.push_back(random({s.rows, s.width}, options));
  w.inputs.leaves.push_back(random_weight(s.width, options));
  w.run = [adds = s.adds](const Inputs& in, Level level) -> Leaves {
    const Leaves& x = in.leaves;
    if (!adds) return {rms_norm(x[0], x[1], kNormEpsilon, level)};
    const auto [y, sum] = add_rms_norm(x[0], x[1], x[2], kNormEpsilon, level);
    return {y, sum};
  };
  return w;
}

}  // namespace

OpProof rms_norm_proof() {
  return {
      .tolerances = {{"rms_norm"}, {"add_rms_norm"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {RmsNormShape{.rows = 40, .width = 33}, RmsNormShape{.rows = 40, .width = 33, .adds = true}},
      .gpu_shapes = {RmsNormShape{.rows = 16384, .width = 4096}, RmsNormShape{.rows = 8192, .width = 8192},
                     RmsNormShape{.rows = 16384, .width = 4096, .adds = true},
                     RmsNormShape{.rows = 8192, .width = 8192, .adds = true},
                     RmsNormShape{.rows = 32768, .width = 4096, .adds = true}},
      .cpu_shapes = {RmsNormShape{.rows = 2048, .width = 1024},
                     RmsNormShape{.rows = 2048, .width = 1024, .adds = true}},
  };
}

}  // namespace strata::kernels
