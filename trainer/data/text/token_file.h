// SPDX-License-Identifier: MIT
// A file of token ids in llm.c's format: a header of 256 int32, then uint16 or uint32 ids, little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/text/raw_file.h"

namespace strata::trainer {

// The header is {20240520, 1, tokens} for uint16 ids or {20240801, 7, tokens} for uint32 ids, padded with zeros to 1024
// bytes.
class TokenFile {
 public:
  // Opens the file and checks its header against its size. Throws Error (data) that names the file.
  explicit TokenFile(std::string path);

  const std::string& path() const { return file_.path(); }
  int64_t tokens() const { return tokens_; }
  int bytes_per_id() const { return bytes_per_id_; }

  // ids[0..count) <- the tokens from `first` on. The caller must keep the range inside the file. Several threads may
  // call this at the same time. Throws Error (data) if the file has become shorter since it was opened.
  void read(int64_t first, int64_t count, int64_t* ids) const;

 private:
  RawFile file_;
  int64_t tokens_ = 0;
  int bytes_per_id_ = 0;
};

// Returns the paths of the token files that match a pattern. Throws Error (data) if there are none.
std::vector<std::string> token_paths(const std::string& pattern);

}  // namespace strata::trainer
