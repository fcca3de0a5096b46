// SPDX-License-Identifier: MIT
// Reads and writes the safetensors format: a JSON header with the places of named tensors in the bytes after it.
// Reading is strict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::trainer {

// The most that a reader accepts, and therefore the most that a writer may write.
inline constexpr uint64_t kLargestHeader = 100'000'000;  // bytes; the limit of the format
inline constexpr size_t kMostTensors = 100'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                // F32, BF16, F16, F64, I64, I32, U8, ...
  std::vector<int64_t> shape = {};  // {} is a scalar
  uint64_t begin = 0;               // first byte, counted from the end of the header
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // sorted by their first byte
  std::map<std::string, std::string> metadata;  // __metadata__
};

std::optional<uint64_t> bytes_of_dtype(std::string_view dtype);

// Returns what is wrong with the name of a tensor, which messages quote, or an empty text.
std::string tensor_name_problem(std::string_view name);
// Returns "[256, 128]".
std::string shape_text(const std::vector<int64_t>& shape);

// Sorts the entries as the format's own writer does (by width of the dtype, widest first, so that all are aligned; then
// by name) and sets `begin` and `bytes`. Returns the bytes before the tensors, which follow in this order without gaps.
// Throws Error(storage) if a reader would refuse the file for its number of tensors or for the size of its header.
std::string place_safetensors(SafetensorsHeader& header);

// An open file whose header has been checked.
class SafetensorsFile {
 public:
  // Throws Error(malformed) if the header is wrong. A wrong file of a checkpoint is damaged, so that is storage.
  explicit SafetensorsFile(const std::string& path, ExitCode malformed = ExitCode::storage);
  const SafetensorsHeader& header() const { return header_; }
  const SafetensorsEntry* find(std::string_view name) const;  // null if absent
  // Reads a range of bytes of one tensor, which must lie inside the tensor.
  void read(const SafetensorsEntry& entry, uint64_t first, void* into, uint64_t bytes) const;

 private:
  InputFile file_;
  SafetensorsHeader header_;
  std::vector<size_t> by_name_;  // indices of the entries, sorted by name: a file may have 100,000
  uint64_t data_begin_ = 0;
};

}  // namespace strata::trainer
