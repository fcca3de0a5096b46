// SPDX-License-Identifier: MIT
// Appends a result to a file, which grows from one command to the next. A RecordFile grows during a run, which must not
// end because of it.
#pragma once

#include <fstream>
#include <string>

#include "base/errors.h"

namespace strata {

// Creates the file if it does not exist. Does nothing if `path` is empty. Throws (storage) if the text cannot be
// written.
inline void append_result(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  if (!file.flush()) throw Error(ExitCode::storage, path + ": cannot be written");
}

}  // namespace strata
