// SPDX-License-Identifier: MIT
// A table of numbers in a text file, gzipped or plain: lines of numbers with commas, semicolons, spaces or tabs
// between.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace strata::trainer {

// int64 [lines, columns] and fp32 [lines, columns]; columns 0: as many as the first line has. Throws Error (data), with
// file and line, for what is not a finite number, for lines of another length, and for gzipped files that are damaged
// or that are larger than ZipFile::most_bytes_of(their size).
at::Tensor read_integers(const std::string& path, int64_t columns);
at::Tensor read_reals(const std::string& path, int64_t columns);

}  // namespace strata::trainer
