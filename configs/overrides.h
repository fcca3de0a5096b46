// SPDX-License-Identifier: MIT
// Overrides of the command line: `a.b.c=value` sets a key of the document, `a.0=value` an element of a list.
#pragma once

#include <string>

#include "configs/config_errors.h"
#include "configs/document.h"

namespace strata::configs {

// Returns the document with the override applied; the value is parsed as YAML. On an error, returns the document
// unchanged.
NodePtr apply_override(const NodePtr& root, const std::string& override_text, ErrorList& errors);

}  // namespace strata::configs
