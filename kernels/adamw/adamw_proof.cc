// SPDX-License-Identifier: MIT
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

constexpr AdamwOptions kOptions = {0.9, 0.95, 1e-8, 0.1};

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const int64_t size : {1, 37, 4099}) {
    for (const double skip : {0.0, 1.0}) {
      OpCase adamw_case{AdamwShape{.elements = size, .gradient_bytes = 8, .copy_bytes = 8},
                        "adamw_" + std::to_string(size) + (skip == 0 ? "" : "_skipped"),
                        {random({size}), random({size}).mul_(0.1), at::rand({size}, at::kDouble), random({size})},
                        0,
                        [skip](const Leaves& leaves, Level level) -> Leaves {
                          // Half precision leaves are the half precision gradient of an fp32 master.
                          const auto wide = leaves[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
                          Tensor master = leaves[0].to(wide, false, /*copy=*/true);
                          Tensor first = leaves[1].to(wide, false, true), second = leaves[2].to(wide, false, true);
                          Tensor copy = at::empty_like(master);
                          const auto scalar = [&](double value) { return number(value, master.device()); };
                          adamw(master, first, second, leaves[3], copy,
                                {scalar(0.015625), scalar(3), scalar(0.75), scalar(skip)}, kOptions, level);
                          return {master, first, second, copy};
                        }};
      adamw_case.differentiable = false;
      // A parameter without a gradient has moments of 0, and epsilon alone keeps its update from 0 / 0.
      for (size_t i = 1; i < adamw_case.leaves.size(); ++i) adamw_case.leaves[i].narrow(0, size / 2, size / 3).zero_();
      cases.push_back(adamw_case);
    }
  }
  return cases;
}

// Master and moments are fp32; gradient and compute copy have the dtype.
Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const int64_t n = shape.as<AdamwShape>()->elements;
  const auto wide = options.dtype(at::kFloat);
  Workload w{shape};
  w.differentiable = false;
  w.split_leaves = 5;
  w.split_results = 4;
  w.inputs.leaves = {random({n}, wide), random({n}, wide).mul_(0.1), at::rand({n}, wide), random({n}, options),
                     at::zeros({n}, options)};
  w.inputs.constants = {number(0.015625, options), number(3, options), number(0.75, options), number(0, options)};
  w.run = [](const Inputs& in, Level level) -> Leaves {
    Tensor master = in.leaves[0], first = in.leaves[1], second = in.leaves[2], copy = in.leaves[4];
    adamw(master, first, second, in.leaves[3], copy,
          {in.constants[0], in.constants[1], in.constants[2], in.constants[3]}, kOptions, level);
    return {master, first, second, copy};
  };
  return w;
}

}  // namespace

OpProof adamw_proof() {
  return {
      .tolerances = {{"adamw"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {AdamwShape{.elements = 1000}},
      .gpu_shapes = {AdamwShape{.elements = 1'200'000'000}},
      .cpu_shapes = {AdamwShape{.elements = 4'000'000}},
  };
}

}  // namespace strata::kernels
