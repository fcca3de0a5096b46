// SPDX-License-Identifier: MIT
// An array of bytes in the IDX format of MNIST, gzipped or plain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

// Magic number (two zero bytes, 0x08 for unsigned bytes, the number of dimensions), one big-endian uint32 for each
// dimension, then the values, the last dimension next to each other.
struct IdxArray {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> values;
};

// Reads a file that somebody else made. Throws Error (data), with the file and the reason, unless it holds exactly one
// array of unsigned bytes of `least` to `most` dimensions, none of them empty.
IdxArray read_idx(const std::string& path, int least, int most);

}  // namespace strata::trainer
