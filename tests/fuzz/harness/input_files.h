// SPDX-License-Identifier: MIT
// The files of a target's input, in a folder of this process. tools/strata fuzz puts the folder into memory.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/files/temporary_folder.h"
#include "tests/fuzz/harness/target.h"

namespace strata::fuzz {

inline const std::string& input_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

// Replaces the content of a file in that folder, and returns its path.
inline std::string write_input(const std::string& name, std::string_view bytes) {
  const std::string path = input_folder() + "/" + name;
  // ext4 writes a file to the disk that is emptied and filled again, which takes 15 ms each time.
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  require(file.good(), path + " cannot be written");
  return path;
}

}  // namespace strata::fuzz
