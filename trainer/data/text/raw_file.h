// SPDX-License-Identifier: MIT
// A regular file that stays open and is read at any place: the base of token files and of document ends.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace strata::trainer {

// The file is read with pread and not mapped, because a mapped file that shrinks kills the process with SIGBUS, without
// a message.
class RawFile {
 public:
  static constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);
  using Header = std::array<int32_t, 256>;

  // Throws Error (data) that names the file. `kind` is what was expected: "a token file (.bin)".
  RawFile(std::string path, const std::string& kind);
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&&) = delete;
  ~RawFile();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // when it was opened

  // Reads `bytes` bytes, or fewer if the file ends before, and returns how many were read. Several threads may call
  // this at the same time.
  int64_t read(void* buffer, int64_t bytes, int64_t offset) const;
  // Throws Error (data) if the file is shorter than a header.
  Header header(const std::string& kind) const;
  // Throws Error (data) if the file does not have a header and `numbers` numbers of `bytes_per_number` bytes each.
  void require_size(int64_t numbers, const std::string& noun, int bytes_per_number) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace strata::trainer
