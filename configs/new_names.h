// SPDX-License-Identifier: MIT
// Finds keys that were renamed, and gives them their new names.
#pragma once

#include <string>
#include <vector>

#include "configs/document.h"
#include "configs/renamed_key.h"

namespace strata::configs {

// Returns the new path of a key, with the list indices of `path`, or "" if that key was not renamed.
std::string renamed_path(const std::string& path, const std::vector<RenamedKey>& renamed);

// Returns the document with new names instead of old ones. Values, places and other keys are the same.
NodePtr with_new_names(const NodePtr& root, const std::vector<RenamedKey>& renamed);

}  // namespace strata::configs
