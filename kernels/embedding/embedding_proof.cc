// SPDX-License-Identifier: MIT
#include <ATen/ops/randint.h>

#include <algorithm>
#include <utility>

#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const auto& [sizes, width] : {std::pair{Sizes{4, 50}, 12}, std::pair{Sizes{1, 1}, 16}, std::pair{Sizes{0, 3}, 8},
                                     std::pair{Sizes{3, 7}, 33}}) {
    const Tensor indices = at::randint(0, 19, sizes, at::kLong);  // 19 of 23 rows of the weight, so some are never used
    cases.push_back({EmbeddingShape{.rows = indices.numel(), .width = width, .vocabulary = 23},
                     "embedding_" + sizes_text(sizes),
                     {random({23, width})},
                     1,
                     [indices](const Leaves& leaves, Level level) -> Leaves {
                       return {embedding(copied_to(leaves[0].device(), indices), leaves[0], level)};
                     }});
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const EmbeddingShape& s = *shape.as<EmbeddingShape>();
  Workload w{shape};
  w.split_leaves = 0;
  w.split_constants = 1;
  w.row_elements = std::max(s.width, s.vocabulary);
  w.inputs.leaves = {random({s.vocabulary, s.width}, options)};
  w.inputs.constants = {random_indices(s.rows, s.vocabulary, options)};
  w.run = [](const Inputs& in, Level level) -> Leaves { return {embedding(in.constants[0], in.leaves[0], level)}; };
  return w;
}

}  // namespace

OpProof embedding_proof() {
  return {
      .tolerances = {{"embedding"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {EmbeddingShape{.rows = 40, .width = 16, .vocabulary = 23}},
      .gpu_shapes = {EmbeddingShape{.rows = 65536, .width = 768, .vocabulary = 50304}},
      .cpu_shapes = {EmbeddingShape{.rows = 2048, .width = 512, .vocabulary = 4096}},
  };
}

}  // namespace strata::kernels
