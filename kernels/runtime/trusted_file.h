// SPDX-License-Identifier: MIT
// TrustedFile: an open file that only the user, root or the owner of this program can change, and of which code may be
// loaded.
#pragma once

#include <filesystem>
#include <string>

namespace strata::kernels {

class TrustedFile {
 public:
  // Throws a c10::ValueError that says what is wrong with the file.
  explicit TrustedFile(const std::filesystem::path& path);
  ~TrustedFile();
  TrustedFile(const TrustedFile&) = delete;
  TrustedFile& operator=(const TrustedFile&) = delete;

  size_t bytes() const { return bytes_; }
  std::string read() const;

  // Returns a path of the open file itself. Whatever is put in its place in the folder meanwhile, it stays this file.
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  // Leaves the file open for the rest of the process.
  void keep_open() { descriptor_ = -1; }

 private:
  int descriptor_;
  size_t bytes_ = 0;
};

}  // namespace strata::kernels
