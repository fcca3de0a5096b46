// SPDX-License-Identifier: MIT
// Files of results, which grow from one command to the next.
#pragma once

#include <fstream>
#include <string>

#include "base/errors.h"

namespace strata {

// Makes the file when it does not exist. Without a path nothing is done.
inline void append_text(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  if (!file.flush()) throw Error(ExitCode::storage, path + ": cannot be written");
}

}  // namespace strata
