// SPDX-License-Identifier: MIT
#include "kernels/op_proofs.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <utility>

#include "kernels/op_proof_list.h"

namespace strata::kernels {
namespace {

std::pair<const OpProof*, const Tolerance*> find(std::string_view op) {
  for (const OpProof& proof : op_proofs()) {
    for (const Tolerance& tolerance : proof.tolerances) {
      if (tolerance.op == op) return {&proof, &tolerance};
    }
  }
  TORCH_CHECK(false, "no kernels/<op>/<op>_proof.cc has a tolerance for op ", op);
}

std::vector<OpCase> all_of(std::vector<OpCase> (*OpProof::*list)()) {
  std::vector<OpCase> cases;
  for (const OpProof& proof : op_proofs()) {
    if (proof.*list == nullptr) continue;
    at::manual_seed(1);
    for (OpCase& op_case : (proof.*list)()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace

const std::vector<OpProof>& op_proofs() {
  static const std::vector<OpProof> proofs = proof_of_each_op();
  return proofs;
}

const OpProof& proof_of(std::string_view op) { return *find(op).first; }
const Tolerance& tolerance_of(std::string_view op) { return *find(op).second; }

std::vector<OpCase> op_cases() { return all_of(&OpProof::cases); }
std::vector<OpCase> large_op_cases() { return all_of(&OpProof::large_cases); }

Workload make_workload(const OpShape& shape, at::ScalarType dtype, at::Device device) {
  const auto [proof, tolerance] = find(shape.op());
  at::manual_seed(1);
  Workload workload = proof->workload(shape, at::TensorOptions(dtype).device(device));
  workload.dtype = dtype;
  workload.tolerance = *tolerance;
  return workload;
}

}  // namespace strata::kernels
