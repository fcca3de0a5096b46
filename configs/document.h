// SPDX-License-Identifier: MIT
// A YAML document as it was written, with the place of every key and value. What YAML libraries let pass is refused
// here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/config_errors.h"
#include "configs/source.h"

namespace strata::configs {

struct Node;
using NodePtr = std::shared_ptr<const Node>;  // aliases share

struct Node {
  enum class Kind { null, scalar, list, map };
  struct Entry {
    std::string key;
    Place key_place;
    NodePtr value;
  };

  Kind kind = Kind::null;
  Place place = {};
  std::string text = {};  // of a scalar
  bool quoted = false;    // '10' is text, 10 is a number
  std::vector<NodePtr> items = {};
  std::vector<Entry> entries = {};  // of a map, duplicates included
  int64_t size = 1;                 // nodes below and including this one, aliases counted each time

  // The first value under `key`, or null.
  NodePtr find(const std::string& key) const;
  // "the text 'abc'", "a list of 3"
  std::string described() const;
};

// Null when the text is not one well-formed document; `errors` then says why. `path` in messages is `key_path`.
NodePtr parse_document(std::shared_ptr<const Source> source, const std::string& key_path, ErrorList& errors);

// The same for a file, which must be a readable regular file of at most 256 KiB.
NodePtr load_document(const std::string& path, ErrorList& errors);

}  // namespace strata::configs
