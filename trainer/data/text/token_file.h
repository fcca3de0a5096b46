// SPDX-License-Identifier: MIT
// One file of token ids in llm.c's format: 256 int32 of header, then uint16 or uint32 ids, little-endian.
#pragma once

#include <cstdint>
#include <string>

namespace strata::trainer {

// Header: {20240520, 1, tokens} before uint16 ids, {20240801, 7, tokens} before uint32 ids, zeros up to 1024 bytes.
// Read with pread, not mapped: a file that shrinks under a mapping kills the process with SIGBUS and without a name.
class TokenFile {
 public:
  // Opens the file and holds its header against its size. Throws Error (data) that names the file.
  explicit TokenFile(std::string path);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  const std::string& path() const { return path_; }
  int64_t tokens() const { return tokens_; }
  int bytes_per_id() const { return bytes_per_id_; }

  // ids[0..count) <- the tokens from `first` on, which the caller keeps inside the file. Safe from several threads.
  // Throws Error (data) when the file has become shorter since it was opened.
  void read(int64_t first, int64_t count, int64_t* ids) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t tokens_ = 0;
  int bytes_per_id_ = 0;
};

}  // namespace strata::trainer
