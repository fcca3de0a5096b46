// SPDX-License-Identifier: MIT
// Reads a document into the fields of a configuration, strictly: whatever is not a known key with a good value is an
// error.
#pragma once

#include <map>
#include <string>

#include "configs/config_errors.h"
#include "configs/document.h"
#include "configs/fields.h"

namespace strata::configs {

// Where each key was written, by its path (`kernels.layers.0.only`). Keys that kept their default are absent.
using Places = std::map<std::string, Place>;

// `prototype` describes the same fields bound to another object, which is used up.
Places read_document(const Node& root, Section target, const Section& prototype, ErrorList& errors);

// The place of `path`, or of the nearest section around it that was written.
Place place_of(const Places& places, std::string path);

}  // namespace strata::configs
