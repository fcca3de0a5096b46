// SPDX-License-Identifier: MIT
// A new folder for temporary files, which the destructor removes.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/errors.h"

namespace strata {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "strata-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Error(ExitCode::storage, path_ + ": cannot be made: " + std::strerror(errno));
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace strata
