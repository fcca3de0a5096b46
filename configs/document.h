// SPDX-License-Identifier: MIT
// A YAML document as it was written, with the place of every key and value. It refuses some input that YAML libraries
// accept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/config_errors.h"
#include "configs/source.h"

namespace strata::configs {

constexpr size_t kMostLevels = 64;  // most levels of nesting, far below the depth at which yaml-cpp fails

struct Node;
using NodePtr = std::shared_ptr<const Node>;  // aliases share a node

struct Node {
  enum class Kind { null, scalar, list, map };
  struct Entry {
    std::string key;
    Place key_place;
    NodePtr value;
  };

  Kind kind = Kind::null;
  Place place = {};
  std::string text = {};  // text of a scalar
  bool quoted = false;    // '10' is text, 10 is a number
  std::vector<NodePtr> items = {};
  std::vector<Entry> entries = {};  // entries of a map, duplicate keys included
  int64_t size = 1;                 // number of nodes including this one, aliases counted each time

  // The first value under `key`, or null.
  NodePtr find(const std::string& key) const;
  // A description for error messages, such as "a list of 3".
  std::string described() const;
};

// Returns null if the text is not exactly one well-formed document of at most 1 MiB, and adds the reason to `errors`.
// Errors are reported at the key `key_path`.
NodePtr parse_document(std::shared_ptr<const Source> source, const std::string& key_path, ErrorList& errors);

// Does the same for a file, which must be a readable regular file.
NodePtr load_document(const std::string& path, ErrorList& errors);

}  // namespace strata::configs
