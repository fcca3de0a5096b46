// SPDX-License-Identifier: MIT
// The manifest of a checkpoint: which tensors, which pieces of them in which file, the size and SHA-256 of every file,
// and its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace strata::trainer {

struct StoredPiece {
  int64_t file = 0;    // index in Manifest::files
  int64_t offset = 0;  // of the first element in the flattened tensor
  int64_t count = 0;   // elements
};

struct StoredTensor {
  std::string dtype;                // as safetensors names it
  std::vector<int64_t> shape;       // of the whole tensor
  std::vector<StoredPiece> pieces;  // by offset; together all of the tensor, each element once
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  std::string run;  // id of the process group that wrote it
  int64_t step = 0;
  std::string state;  // what the trainer needs besides tensors; opaque here
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
};

// What follows the name of a parameter in the names of its tensors: the weights, and their moving average.
inline constexpr char kMaster[] = "/master", kAverage[] = "/average";

// The better of the two that there is: the average.
const char* best_weights(const Manifest& manifest);

int64_t element_count(const std::vector<int64_t>& shape);

// The whole text of manifest.json. Its last line is the SHA-256 of all that stands before it.
std::string to_text(const Manifest& manifest);

// Throws Error(storage) that begins with `path` unless the text is that of a consistent manifest: hash, types, no
// unknown or duplicate keys, file names of ours, pieces that cover every tensor once.
Manifest parse_manifest(std::string_view text, const std::string& path);

// What one rank has written, as it is sent to rank 0.
struct RankReport {
  StoredFile file;
  std::map<std::string, StoredTensor> tensors;  // with its own pieces
};
std::string to_text(const RankReport& report);
RankReport parse_rank_report(std::string_view text);

// All reports, in rank order, in one manifest. Throws Error(internal) when the pieces do not cover a tensor exactly
// once or ranks disagree on shape or dtype.
Manifest merge_reports(const std::vector<RankReport>& reports);

}  // namespace strata::trainer
