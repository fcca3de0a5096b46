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
    const DropoutShape shape = {.rows = rows_of(sizes), .width = sizes.back()};
    cases.push_back(
        {shape, "dropout_" + sizes_text(sizes), {random(sizes)}, 0, [](const Leaves& leaves, Level level) -> Leaves {
           const Tensor key = at::full({1}, 0x123456789abcdef, at::kLong).to(leaves[0].device());
           return {dropout(leaves[0], 0.3, key, /*site=*/5, /*first_row=*/(int64_t{1} << 32) - 1, level)};
         }});
    cases.push_back({shape,
                     "dropout_of_negative_key_" + sizes_text(sizes),
                     {random(sizes)},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves {
                       const Tensor key = at::full({1}, -3, at::kLong).to(leaves[0].device());
                       return {dropout(leaves[0], 0.1, key, /*site=*/9, /*first_row=*/77, level)};
                     }});
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  constexpr double kProbability = 0.1;
  constexpr int64_t kSite = 5;
  const DropoutShape& s = *shape.as<DropoutShape>();
  Workload w{shape};
  w.row_elements = s.width;
  w.inputs.leaves = {random({s.rows, s.width}, options)};
  w.inputs.constants = {at::full({1}, 0x123456789abcdef, options.dtype(at::kLong))};
  w.run = [](const Inputs& in, Level level) -> Leaves {
    return {dropout(in.leaves[0], kProbability, in.constants[0], kSite, in.first_row, level)};
  };
  return w;
}

}  // namespace

OpProof dropout_proof() {
  return {
      .tolerances = {{"dropout"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {DropoutShape{.rows = 40, .width = 33}},
      .gpu_shapes = {DropoutShape{.rows = 65536, .width = 768}},
      .cpu_shapes = {DropoutShape{.rows = 2048, .width = 1024}},
  };
}

}  // namespace strata::kernels
