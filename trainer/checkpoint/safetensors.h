// SPDX-License-Identifier: MIT
// The safetensors format: a header in JSON that places named tensors in the bytes after it; strict about what it reads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked_file.h"

namespace strata::trainer {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                // F32, BF16, F16, F64, I64, I32, U8, ...
  std::vector<int64_t> shape = {};  // {} is a scalar
  uint64_t begin = 0;               // first byte, counted from the end of the header
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // in the order of their bytes
  std::map<std::string, std::string> metadata;  // __metadata__
};

std::optional<uint64_t> bytes_of_dtype(std::string_view dtype);

// Sorts the entries as the format's own writer does (wide dtypes first, so that all are aligned; then by name), fills
// in `begin` and `bytes`, and returns all that stands before the tensors' bytes, which follow in this order without
// gaps.
std::string place_safetensors(SafetensorsHeader& header);

// Checks everything that the header says against the number of bytes that follow it: known dtypes, no duplicate names,
// shapes that fit their bytes, bytes covered without holes or overlaps. `path` is for the error, Error(storage).
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& path);

// An open file of which the header has been checked.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  const SafetensorsHeader& header() const { return header_; }
  const SafetensorsEntry* find(std::string_view name) const;  // null: not there
  // Bytes of one tensor; the range lies inside it.
  void read(const SafetensorsEntry& entry, uint64_t first, void* into, uint64_t bytes) const;

 private:
  InputFile file_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
};

}  // namespace strata::trainer
