// SPDX-License-Identifier: MIT
// The files in a tar archive, one after another; nothing is ever unpacked to a disk, and nothing in it is trusted.
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
  // An archive that is not compressed. Throws Error (data) as everything below does, with the archive and the reason.
  explicit TarReader(std::string path);

  // The next file; nothing at the end. Folders are passed over. Refused: names that lead out of the archive's folder or
  // that a terminal cannot show, links, devices, sizes that the archive has no room for, an archive that ends too early
  // or is damaged in a header.
  std::optional<TarMember> next();

  // The content of the file that next() gave.
  std::string read();

 private:
  struct Close {
    void operator()(archive* opened) const;
  };
  [[noreturn]] void fail(const std::string& what) const;
  void check_end() const;

  std::string path_;
  int64_t bytes_ = 0;  // of the archive
  TarMember member_;
  std::unique_ptr<archive, Close> archive_;
};

}  // namespace strata::trainer
