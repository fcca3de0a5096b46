// SPDX-License-Identifier: MIT
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_shape.h"

namespace strata::kernels {
namespace {

OpCase rms_norm_case(const std::string& prefix, const Tensor& x) {
  return {RmsNormShape{.rows = rows_of(x.sizes()), .width = x.size(-1)},
          "rms_norm_" + prefix + sizes_text(x.sizes().vec()),
          {x, random_weight(x.size(-1))},
          1,
          [](const Leaves& leaves, Level level) -> Leaves {
            return {rms_norm(leaves[0], leaves[1], kNormEpsilon, level)};
          }};
}

OpCase add_rms_norm_case(const std::string& prefix, const Tensor& residual, const Tensor& branch) {
  return {RmsNormShape{.rows = rows_of(residual.sizes()), .width = residual.size(-1), .adds = true},
          "add_rms_norm_" + prefix + sizes_text(residual.sizes().vec()),
          {residual, branch, random_weight(residual.size(-1))},
          1,
          [](const Leaves& leaves, Level level) -> Leaves {
            const auto [y, sum] = add_rms_norm(leaves[0], leaves[1], leaves[2], kNormEpsilon, level);
            return {y, sum};
          },
          true,
          2};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    cases.push_back(rms_norm_case("", random(sizes)));
    cases.push_back(add_rms_norm_case("", random(sizes), random(sizes)));
  }
  for (const Sizes& sizes : unusual_row_shapes()) {
    cases.push_back(rms_norm_case("offset_", offset_rows(sizes)));
    cases.push_back(rms_norm_case("zero_", zero_rows(sizes)));
    cases.push_back(add_rms_norm_case("zero_", zero_rows(sizes), zero_rows(sizes)));
    cases.push_back(rms_norm_case("outlier_", outlier_rows(sizes)));
    cases.push_back(add_rms_norm_case("outlier_", outlier_rows(sizes), random(sizes)));
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
