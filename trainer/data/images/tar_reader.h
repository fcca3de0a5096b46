// SPDX-License-Identifier: MIT
// Reads the files of a tar archive in sequence. It never unpacks to a disk and trusts no data of the archive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct archive;

namespace strata::trainer {

struct TarMember {
  std::string name;
  int64_t bytes = 0;
};

class TarReader {
 public:
  // Opens an uncompressed archive. Throws Error (data, or storage if that failed) with the archive and the reason, as
  // all functions below do.
  explicit TarReader(std::string path);

  // Returns the next file, or nothing at the end. Folders are skipped. It refuses names that lead out of the archive's
  // folder or have control characters, links, devices, sparse files, sizes that exceed the archive, and an archive that
  // ends too early, goes on after its end, or has a damaged header.
  std::optional<TarMember> next();

  // Returns the content of the file that next() returned.
  std::string read();

 private:
  struct Close {
    void operator()(archive* opened) const;
  };
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_in_storage(const std::string& reason) const;
  [[noreturn]] void fail_to_read(const std::string& what) const;  // throws what libarchive's last failure means
  void check_end() const;

  std::string path_;
  int64_t bytes_ = 0;  // size of the archive
  int64_t next_ = 0;   // the first byte at which the next header may stand
  TarMember member_;
  std::unique_ptr<archive, Close> archive_;
};

}  // namespace strata::trainer
