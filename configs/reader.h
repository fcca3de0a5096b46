// SPDX-License-Identifier: MIT
// Reads a document into the fields of a configuration. Everything except known keys with valid values is an error.
#pragma once

#include <map>
#include <string>

#include "configs/config_errors.h"
#include "configs/document.h"
#include "configs/fields.h"

namespace strata::configs {

// The place where each key was written, by its path (`kernels.layers.0.only`). Keys with their default value are
// absent.
using Places = std::map<std::string, Place>;

// `prototype` describes the same fields, bound to another object, which is modified.
Places read_document(const Node& root, Section target, const Section& prototype, ErrorList& errors);

// Returns the place of `path`, or of the nearest enclosing section that was written.
Place place_of(const Places& places, std::string path);

}  // namespace strata::configs
