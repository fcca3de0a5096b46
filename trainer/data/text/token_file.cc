// SPDX-License-Identifier: MIT
#include "trainer/data/text/token_file.h"

#include <array>
#include <utility>

#include "base/errors.h"
#include "trainer/data/matching_files.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

struct Format {
  int32_t magic, version;
  int bytes_per_id;
};
constexpr std::array<Format, 2> kFormats = {{{20240520, 1, 2}, {20240801, 7, 4}}};

template <class Id>
void read_ids(const RawFile& file, int64_t tokens, int64_t first, int64_t count, int64_t* ids) {
  std::vector<Id> raw(count);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(Id));
  const int64_t got = file.read(raw.data(), bytes, RawFile::kHeaderBytes + first * static_cast<int64_t>(sizeof(Id)));
  if (got != bytes) {
    refuse_file(file.path(), "was cut while in use: it had " + std::to_string(tokens) +
                                 " tokens when it was opened, now it ends before token " +
                                 std::to_string(first + count) + "; restore it and resume the run");
  }
  for (int64_t i = 0; i < count; ++i) ids[i] = raw[i];
}

}  // namespace

TokenFile::TokenFile(std::string path) : file_(std::move(path), "a token file (.bin)") {
  const RawFile::Header header = file_.header("a token file");
  for (const Format& format : kFormats) {
    if (header[0] != format.magic) continue;
    if (header[1] != format.version) {
      refuse_file(this->path(), "is version " + std::to_string(header[1]) + " of the token format " +
                                    std::to_string(format.magic) + "; expected version " +
                                    std::to_string(format.version));
    }
    bytes_per_id_ = format.bytes_per_id;
  }
  if (bytes_per_id_ == 0) {
    refuse_file(this->path(),
                "does not begin with the magic number of a token file (expected 20240520 or 20240801, found " +
                    std::to_string(header[0]) + "); write one with: tools/strata prepare text");
  }
  tokens_ = header[2];
  if (tokens_ <= 0)
    refuse_file(this->path(), "has " + std::to_string(tokens_) + " tokens by its header; expected at least one");
  file_.require_size(tokens_, "tokens", bytes_per_id_);
}

void TokenFile::read(int64_t first, int64_t count, int64_t* ids) const {
  if (first < 0 || count < 0 || first + count > tokens_) {
    throw Error(ExitCode::internal, path() + ": tokens " + std::to_string(first) + " to " +
                                        std::to_string(first + count) + " were asked of a file of " +
                                        std::to_string(tokens_));
  }
  if (bytes_per_id_ == 2) {
    read_ids<uint16_t>(file_, tokens_, first, count, ids);
  } else {
    read_ids<uint32_t>(file_, tokens_, first, count, ids);
  }
}

std::vector<std::string> token_paths(const std::string& pattern) {
  return matching_files(pattern, "write token files with: tools/strata prepare text");
}

}  // namespace strata::trainer
