// SPDX-License-Identifier: MIT
// Reads a document into the fields of a configuration. Everything except known keys with valid values is an error.
#pragma once

#include <map>
#include <string>

#include "configs/config_errors.h"
#include "configs/document.h"
#include "configs/fields.h"
#include "configs/key_finder.h"

namespace strata::configs {

// The place where each key was written, by its path (`kernels.layers.0.only`). Keys with their default value are
// absent.
using Places = std::map<std::string, Place>;

// Returns the keys of a configuration. It is called only if the document has an unknown key.
using KnownKeysOf = const KnownKeys& (*)();

Places read_document(const Node& root, Section target, KnownKeysOf known, ErrorList& errors);

// Reads into `config`, which has its defaults before.
template <class Config>
Places read_document(const Node& root, Config& config, ErrorList& errors) {
  return read_document(
      root, section_of(config),
      []() -> const KnownKeys& {
        static const KnownKeys keys = [] {
          Config scratch;
          return KnownKeys(section_of(scratch));
        }();
        return keys;
      },
      errors);
}

// Returns the place of `path`, or of the nearest enclosing section that was written.
Place place_of(const Places& places, std::string path);

}  // namespace strata::configs
