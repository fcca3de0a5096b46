// SPDX-License-Identifier: MIT
// `a.b.c=value` on the command line: a key of the document, or an element of a list (a.0), gets another value.
#pragma once

#include <string>

#include "configs/config_errors.h"
#include "configs/document.h"

namespace strata::configs {

// The document with the override; the value is YAML. On an error the document as it was.
NodePtr apply_override(const NodePtr& root, const std::string& override_text, ErrorList& errors);

}  // namespace strata::configs
