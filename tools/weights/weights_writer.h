// SPDX-License-Identifier: MIT
// Writes tensors into FOLDER/model.safetensors, or into several files with an index if they are large.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::tools {

struct Weight {
  std::string name;
  std::vector<int64_t> shape;
  // Returns fp32, contiguous. It is called for one weight at a time, so that only one is in memory.
  std::function<at::Tensor()> values;
};

inline constexpr uint64_t kDefaultFileBytes = 5'000'000'000;

// Creates the folder. A file holds as many weights as fit into `file_bytes`, in the order of their names. A larger
// weight has a file of its own. Files get their names only when all of them are written. After an exception, also one
// of Weight::values, the folder has none of them. Throws Error (storage) if the folder already has weights or an index.
// Values are rounded to `type`: see rounded_weight. Returns a sentence that describes what was written.
std::string write_weights(const std::string& folder, std::vector<Weight> weights, uint64_t file_bytes,
                          at::ScalarType type = at::kFloat);

}  // namespace strata::tools
