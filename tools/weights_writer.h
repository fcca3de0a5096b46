// SPDX-License-Identifier: MIT
// Writes fp32 tensors into FOLDER/model.safetensors, or into several files with an index when they are large.
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
  std::function<at::Tensor()> values;  // fp32, contiguous; asked for when its turn comes: one at a time is in memory
};

inline constexpr uint64_t kDefaultFileBytes = 5'000'000'000;

// Makes the folder. A file holds as many weights, in the order of their names, as fit into `file_bytes`; a single
// larger one has a file of its own. Files appear under their names when all of them are written. Throws Error(storage)
// when the folder has weights or an index already. Returns one sentence that says what was written.
std::string write_weights(const std::string& folder, std::vector<Weight> weights, uint64_t file_bytes);

}  // namespace strata::tools
