// SPDX-License-Identifier: MIT
// Reads an array of bytes in the IDX format of MNIST, gzipped or plain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

// The format is a magic number (two zero bytes, 0x08 for unsigned bytes, the number of dimensions), one big-endian
// uint32 for each dimension, and the values in row-major order.
struct IdxArray {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> values;
};

// Reads a file that is not trusted. Throws Error (data) with the file and the reason unless it holds exactly one array
// of unsigned bytes with `least` to `most` dimensions, all of size 1 or more.
IdxArray read_idx(const std::string& path, int least, int most);

}  // namespace strata::trainer
