// SPDX-License-Identifier: MIT
#include <ATen/ops/full.h>

#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    DropoutShape shape{.rows = rows_of(sizes), .width = sizes.back()};
    cases.push_back(
        {shape, "dropout_" + sizes_text(sizes), {random(sizes)}, 0, [](const Leaves& leaves, Level level) -> Leaves {
           const Tensor key = at::full({1}, 0x123456789abcdef, at::kLong).to(leaves[0].device());
           return {dropout(leaves[0], 0.3, key, /*site=*/5, /*first_row=*/(int64_t{1} << 32) - 1, level)};
         }});
    shape.adds = true;
    cases.push_back({shape,
                     "add_dropout_" + sizes_text(sizes),
                     {random(sizes), random(sizes)},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves {
                       const Tensor key = at::full({1}, -3, at::kLong).to(leaves[0].device());
                       return {add_dropout(leaves[0], leaves[1], 0.1, key, /*site=*/9, /*first_row=*/77, level)};
                     }});
  }
  return cases;
}

// With a residual, the first leaf is the residual.
Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  constexpr double kProbability = 0.1;
  constexpr int64_t kSite = 5;
  const DropoutShape& s = *shape.as<DropoutShape>();
  Workload w{shape};
  w.split_leaves = s.adds ? 2 : 1;
  w.row_elements = s.width;
  for (size_t i = 0; i < w.split_leaves; ++i) w.inputs.leaves.push_back(random({s.rows, s.width}, options));
  w.inputs.constants = {at::full({1}, 0x123456789abcdef, options.dtype(at::kLong))};
  w.run = [adds = s.adds](const Inputs& in, Level level) -> Leaves {
    const Leaves& x = in.leaves;
    const Tensor& key = in.constants[0];
    if (adds) return {add_dropout(x[0], x[1], kProbability, key, kSite, in.first_row, level)};
    return {dropout(x[0], kProbability, key, kSite, in.first_row, level)};
  };
  return w;
}

}  // namespace

OpProof dropout_proof() {
  return {
      .tolerances = {{"dropout", 2, 2}, {"add_dropout", 2, 2}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {DropoutShape{.rows = 40, .width = 33}, DropoutShape{.rows = 40, .width = 33, .adds = true}},
      .gpu_shapes = {DropoutShape{.rows = 65536, .width = 768},
                     DropoutShape{.rows = 65536, .width = 768, .adds = true}},
      .cpu_shapes = {DropoutShape{.rows = 2048, .width = 1024},
                     DropoutShape{.rows = 2048, .width = 1024, .adds = true}},
  };
}

}  // namespace strata::kernels
