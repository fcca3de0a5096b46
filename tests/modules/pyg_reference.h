// SPDX-License-Identifier: MIT
// The results of PyG that pyg_reference.py wrote.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/tensor.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace strata::modules {

using at::Tensor;
using Json = nlohmann::json;

inline const Json& reference() {
  static const Json json = Json::parse(std::ifstream("tests/modules/pyg_reference.json"));
  return json;
}

inline Tensor tensor_of(const Json& numbers, const std::vector<int64_t>& shape) {
  return at::tensor(numbers.get<std::vector<float>>(), at::kFloat).view(shape);
}

inline double relative_error(const Tensor& ours, const Tensor& theirs) {
  return (at::abs(ours - theirs).max() / at::abs(theirs).max()).item<double>();
}

}  // namespace strata::modules
