// SPDX-License-Identifier: MIT
// A folder of weights in the usual layout: model.safetensors, or several files with model.safetensors.index.json.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {

inline constexpr char kWeightsIndex[] = "model.safetensors.index.json";

// Returns why the values of a tensor cannot be read as fp32, or an empty text.
std::string what_is_no_float(const SafetensorsEntry& entry);

class WeightsFolder {
 public:
  // Opens the files, checks their headers, and checks that the index and the files have the same tensors. Only files
  // directly in the folder are opened. Throws an Error with the file and the problem: storage if a file is missing or
  // cannot be read, data if what it holds is wrong.
  explicit WeightsFolder(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;                       // sorted
  const SafetensorsEntry* find(const std::string& name) const;  // null if absent
  // Reads elements [first, first + count) of the flattened tensor as fp32. The tensor is F32, BF16 or F16, and the
  // range must lie inside it.
  at::Tensor read(const std::string& name, int64_t first, int64_t count) const;

 private:
  struct Place {
    size_t file;
    const SafetensorsEntry* entry;
  };
  void open(const std::string& file);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace strata::trainer
