// SPDX-License-Identifier: MIT
// The manifest of a checkpoint: its tensors, the pieces of each tensor in each file, size and SHA-256 of every file,
// and its own SHA-256.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/errors.h"

namespace strata::trainer {

// The most bytes of a manifest that is read or written.
inline constexpr uint64_t kLargestManifest = 64'000'000;

// Thrown if a checkpoint could be read and is not what was written. A checkpoint that could not be read is another
// Error, because the next start may read it.
class Damaged : public Error {
 public:
  explicit Damaged(const std::string& what) : Error(ExitCode::storage, what) {}
};

struct StoredPiece {
  int64_t file = 0;    // index in Manifest::files
  int64_t offset = 0;  // index of the first element in the flattened tensor
  int64_t count = 0;   // number of elements
};

struct StoredTensor {
  std::string dtype;                // name in safetensors
  std::vector<int64_t> shape;       // shape of the whole tensor
  std::vector<StoredPiece> pieces;  // sorted by offset; together they cover each element of the tensor once
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  std::string run;  // id of the process group that wrote the checkpoint
  int64_t step = 0;
  std::string state;  // the trainer's state except for tensors; opaque here
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
};

// Suffixes of the names of tensors after the name of their parameter: master weights, and their moving average.
inline constexpr char kMaster[] = "/master", kAverage[] = "/average";

// Returns kAverage if the checkpoint has moving averages, otherwise kMaster.
const char* best_weights(const Manifest& manifest);

int64_t element_count(const std::vector<int64_t>& shape);

// Returns the text of manifest.json. Its last line is the SHA-256 of all text before it.
std::string to_text(const Manifest& manifest);

// Throws Damaged, which starts with `path`, unless the text is a consistent manifest: hash, types, no unknown or
// duplicate keys, only names of rank files, and pieces that cover every tensor once. Throws Error(storage) if the
// manifest is whole and has the format of another version.
Manifest parse_manifest(std::string_view text, const std::string& path);

// The files and tensors that one rank has written, as sent to rank 0.
struct RankReport {
  StoredFile file;
  std::map<std::string, StoredTensor> tensors;  // with the pieces of this rank
  std::map<std::string, ContentSum> sums;       // sums of the pieces of master weights
};
std::string to_text(const RankReport& report);
RankReport parse_rank_report(std::string_view text);

// Merges the reports of all ranks, in rank order, into one manifest. Throws Error(internal) if the pieces do not cover
// a tensor exactly once or if ranks disagree on shape or dtype.
Manifest merge_reports(const std::vector<RankReport>& reports);

// Returns the hash of the master weights in the reports that were merged into this manifest: strata::weights_sha256.
std::string weights_sha256(const Manifest& manifest, const std::vector<RankReport>& reports);

}  // namespace strata::trainer
