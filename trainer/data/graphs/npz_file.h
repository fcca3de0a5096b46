// SPDX-License-Identifier: MIT
// Reads the arrays of a NumPy .npz file: numbers only, never a pickle.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "trainer/data/graphs/zip_file.h"

namespace strata::trainer {

class NpzFile {
 public:
  // Throws Error (data) with the file, the array and the reason, as all functions below do.
  explicit NpzFile(const std::string& path) : zip_(path) {}

  const std::string& path() const { return zip_.path(); }
  bool has(const std::string& array) const { return zip_.find(array + ".npy") != nullptr; }
  // Read an array with this number of dimensions: integers as int64, floating point numbers as fp32.
  at::Tensor integers(const std::string& array, int64_t dimensions = 1);
  at::Tensor reals(const std::string& array, int64_t dimensions = 1);
  // Reads a list of items as int64: their numbers, or a mask with one boolean for each of `all` items.
  at::Tensor items(const std::string& array, int64_t all);

 private:
  at::Tensor read(const std::string& array, const std::string& kinds, const std::string& expected, int64_t dimensions);

  ZipFile zip_;
};

}  // namespace strata::trainer
