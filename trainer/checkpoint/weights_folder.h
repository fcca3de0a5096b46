// SPDX-License-Identifier: MIT
// A folder of weights as everybody keeps them: model.safetensors, or several files with model.safetensors.index.json.
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

// Why the values of a tensor cannot be read as fp32; empty: they can.
std::string what_is_no_float(const SafetensorsEntry& entry);

class WeightsFolder {
 public:
  // Opens the files and checks their headers, and that the index and the files tell of the same tensors. Files are
  // found in the folder itself and nowhere else. Throws Error(storage) with the file and what is wrong with it.
  explicit WeightsFolder(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;                       // sorted
  const SafetensorsEntry* find(const std::string& name) const;  // null: not there
  // `count` elements from `first` on of the flattened tensor, which is F32, BF16 or F16, as fp32. They lie inside it.
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
