// SPDX-License-Identifier: MIT
// OpProof: the data that prove and time the ops of one folder. The function <op>_proof() in kernels/<op>/<op>_proof.cc
// returns it, and kernels/op_proofs.h collects all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/op_case.h"
#include "kernels/proof/workload.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct OpProof {
  std::vector<Tolerance> tolerances;  // one for each op of the folder
  std::vector<OpCase> (*cases)();     // cases on which levels_agree_test and exact_test compare all levels
  // Returns the op at a shape of this folder, with random inputs in the dtype and on the device of `options`.
  Workload (*workload)(const OpShape& shape, const at::TensorOptions& options);
  std::vector<OpShape> small_shapes;  // one of each kind for workload_check_test, with odd widths and about 40 rows
  // Shapes that are timed without a configuration: large ones for GPUs, for which the speed of the fastest
  // implementations is known, and small ones for CPUs.
  std::vector<OpShape> gpu_shapes, cpu_shapes;
  // True if levels aten and cuda are deterministic only in deterministic mode. All other levels always are, except for
  // some gradients of the formula on GPUs.
  bool deterministic_if_asked = false;
  // More cases, which take seconds: levels_agree_test and traced_test run them in fewer ways.
  std::vector<OpCase> (*large_cases)() = nullptr;
  // Shapes that are timed only if `bench kernels --shape NAME` asks for them, on any device.
  std::vector<std::pair<std::string, OpShape>> named_shapes = {};
};

}  // namespace strata::kernels
