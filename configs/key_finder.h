// SPDX-License-Identifier: MIT
// Finds the key that a user most likely meant by an unknown key.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "configs/document.h"
#include "configs/fields.h"

namespace strata::configs {

class KeyFinder {
 public:
  // `prototype` has all fields, bound to an object that is modified. `root` is the document: keys that it already has
  // are less likely meant.
  KeyFinder(const Section& prototype, const Node& root);

  struct Meant {
    std::string path;   // path of the key that was meant; empty if none is similar
    std::string shown;  // name of that key, or its path if it is in another section
    // Set if the unknown key belongs to another alternative of this section, such as "type: wsd". Otherwise empty.
    std::string belongs_to = {};
  };
  Meant meant(const std::string& section_path, const std::string& key) const;

 private:
  struct Key {
    std::string section, name;
    bool is_section = false, required = false;
    std::vector<std::string> alternatives = {};  // alternatives of the section that have the key; empty: all
  };
  void collect_keys(const Section& section, const std::string& path, const std::string& alternative);
  void collect_present(const Node& node, const std::string& path);

  std::vector<Key> keys_;
  std::set<std::string> present_;
};

// Returns the path of a key without list indices: `kernels.layers.0.only` gives `kernels.layers.only`.
std::string path_without_indices(const std::string& path);

}  // namespace strata::configs
