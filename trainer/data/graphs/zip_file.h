// SPDX-License-Identifier: MIT
// Reads a ZIP archive that is not trusted, one entry at a time, stored or deflated, and verifies the checksums.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace strata::trainer {

struct ZipEntry {
  std::string name;
  int method = 0;  // 0 means stored, 8 means deflated
  uint32_t checksum = 0;
  int64_t compressed_bytes = 0, bytes = 0;
  int64_t offset = 0;  // offset of its local header
};

class ZipFile {
 public:
  // Throws Error (data) with the file and the reason if the file is not a ZIP archive of less than 4 GiB. It also
  // throws if entries overlap or lie outside of it, or if they expand to more than most_bytes_of() its size.
  explicit ZipFile(const std::string& path);

  const std::string& path() const { return path_; }
  const ZipEntry* find(const std::string& name) const;  // null if absent
  std::vector<char> read(const ZipEntry& entry);

  // The limit on expansion, above which a file counts as a compression bomb: the larger of 64 MiB and 100 times
  // the file's size. Numbers count as what they become: bytes as int64 take eight times the memory.
  static int64_t most_bytes_of(int64_t file_bytes);
  int64_t most_bytes() const { return most_bytes_of(file_bytes_); }
  static std::string bomb(int64_t most_bytes);  // the end of a message

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_directory();
  void check_sizes() const;
  std::vector<char> bytes_at(int64_t offset, int64_t count);

  std::string path_;
  std::ifstream file_;
  int64_t file_bytes_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace strata::trainer
