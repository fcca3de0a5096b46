// SPDX-License-Identifier: MIT
// Reads a table of numbers from a text file, gzipped or plain. The numbers of a line are separated by spaces and
// tabs, or by a comma or a semicolon, which may have spaces and tabs around it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace strata::trainer {

// Return int64 [lines, columns] and fp32 [lines, columns]; if `columns` is 0, the first line decides. Throw Error
// (data) with file and line for anything but finite numbers, for lines of different lengths, and for gzipped files that
// are damaged or that expand to more than ZipFile::most_bytes_of(their size).
at::Tensor read_integers(const std::string& path, int64_t columns);
at::Tensor read_reals(const std::string& path, int64_t columns);

// The entries of a sparse matrix, line by line: row and column int64 [lines], value fp32 [lines].
struct MatrixEntries {
  at::Tensor rows, columns, values;
};

// Each line has row, column and value; or each has row and column, and the values are 1. Throws as the functions above
// do. Rows and columns may be any integers.
MatrixEntries read_entries(const std::string& path);

}  // namespace strata::trainer
