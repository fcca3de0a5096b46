// SPDX-License-Identifier: MIT
// All keys explained: for a terminal, as a page of Markdown, and as a JSON Schema for editors.
#pragma once

#include <string>

#include "configs/fields.h"

namespace strata::configs {

// `prototype` describes an object with its defaults, which is used up.
std::string help_text(const Section& prototype);
std::string reference_page(const Section& prototype, const std::string& title);
std::string json_schema(const Section& prototype, const std::string& title);

}  // namespace strata::configs
