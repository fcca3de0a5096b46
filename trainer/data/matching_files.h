// SPDX-License-Identifier: MIT
// Returns the files that match a shell pattern.
#pragma once

#include <string>
#include <vector>

namespace strata::trainer {

// `pattern` is the name of a file or a pattern such as data/train_*.bin. The result is sorted by bytes, which gives the
// same order on every machine with any locale. Throws Error (data) if no file matches; the message ends with `advice`.
std::vector<std::string> matching_files(const std::string& pattern, const std::string& advice);

}  // namespace strata::trainer
