// SPDX-License-Identifier: MIT
// Appends text to a file of results, which grows from one command to the next.
#pragma once

#include <fstream>
#include <string>

#include "base/errors.h"

namespace strata {

// Creates the file if it does not exist. Does nothing if `path` is empty.
inline void append_text(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  if (!file.flush()) throw Error(ExitCode::storage, path + ": cannot be written");
}

}  // namespace strata
