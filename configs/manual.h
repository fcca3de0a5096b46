// SPDX-License-Identifier: MIT
// Documentation of all keys: as text for a terminal, as a Markdown page, and as a JSON Schema for editors.
#pragma once

#include <string>

#include "configs/fields.h"

namespace strata::configs {

// `prototype` describes an object with its default values; these functions modify the object.
std::string help_text(const Section& prototype);
std::string reference_page(const Section& prototype, const std::string& title);
std::string json_schema(const Section& prototype, const std::string& title);

}  // namespace strata::configs
