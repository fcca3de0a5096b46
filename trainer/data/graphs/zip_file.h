// SPDX-License-Identifier: MIT
// A ZIP archive that somebody else made: its entries are read one at a time, stored or deflated, with their checksums.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace strata::trainer {

struct ZipEntry {
  std::string name;
  int method = 0;  // 0: stored, 8: deflated
  uint32_t checksum = 0;
  int64_t compressed_bytes = 0, bytes = 0;
  int64_t offset = 0;  // of its local header
};

class ZipFile {
 public:
  // Throws Error (data), with the file and the reason, for whatever is not a ZIP archive of at most 4 GiB, for entries
  // that overlap or lie outside of it, and where everything together would be more than most_bytes_of() its size.
  explicit ZipFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;  // null: not there
  std::vector<char> read(const ZipEntry& entry);

  // A file that says more than this is taken for a compression bomb: 1 GiB, or 100 to 1.
  static int64_t most_bytes_of(int64_t file_bytes);

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
