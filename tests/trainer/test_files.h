// SPDX-License-Identifier: MIT
// Files of tests: a folder for them, and what they hold.
#pragma once

#include <string>

namespace strata::trainer {

// A new empty folder that is removed with all its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

}  // namespace strata::trainer
