// SPDX-License-Identifier: MIT
// The files that a pattern of a shell names.
#pragma once

#include <string>
#include <vector>

namespace strata::trainer {

// `pattern` is the name of a file or a pattern such as data/train_*.bin. Sorted by bytes: the same order on every
// machine, whatever its locale. Throws Error (data) when there are none; `advice` ends the sentence then.
std::vector<std::string> matching_files(const std::string& pattern, const std::string& advice);

}  // namespace strata::trainer
