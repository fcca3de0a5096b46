// SPDX-License-Identifier: MIT
// The proofs of all ops: their cases, tolerances and workloads.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/proof/op_proof.h"

namespace strata::kernels {

// Returns one proof for each folder, in the order of kernels/op.bzl.
const std::vector<OpProof>& op_proofs();

// They throw for an op that no proof has.
const OpProof& proof_of(std::string_view op);
const Tolerance& tolerance_of(std::string_view op);

// Returns the cases of all ops. Their numbers are the same in every run and on every machine, with any other ops.
std::vector<OpCase> op_cases();
std::vector<OpCase> large_op_cases();

// Makes random inputs, the same in every run on the same device.
Workload make_workload(const OpShape& shape, at::ScalarType dtype, at::Device device);

}  // namespace strata::kernels
