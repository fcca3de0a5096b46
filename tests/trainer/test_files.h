// SPDX-License-Identifier: MIT
// Folders and files for tests.
#pragma once

#include <string>
#include <vector>

namespace strata::trainer {

// A new empty folder. The destructor removes it with all its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
std::vector<std::string> names_in(const std::string& folder);  // sorted

}  // namespace strata::trainer
