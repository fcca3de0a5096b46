// SPDX-License-Identifier: MIT
// Which key somebody meant who wrote one that is not there.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "configs/document.h"
#include "configs/fields.h"

namespace strata::configs {

class KeyFinder {
 public:
  // `prototype`: all fields, bound to an object that may be changed. `root`: the document, whose keys are less likely
  // meant.
  KeyFinder(const Section& prototype, const Node& root);

  struct Meant {
    std::string path;   // of the key that was meant; empty: no idea
    std::string shown;  // its name, or its path when it is in another section
    // The key itself, which another type of this section has: "type: wsd". Otherwise empty.
    std::string belongs_to = {};
  };
  Meant meant(const std::string& section_path, const std::string& key) const;

 private:
  struct Key {
    std::string section, name;
    bool required = false;
    std::vector<std::string> alternatives = {};  // "type: wsd": the types of the section that have it; empty: all
  };
  void collect_keys(const Section& section, const std::string& path, const std::string& alternative);
  void collect_present(const Node& node, const std::string& path);

  std::vector<Key> keys_;
  std::set<std::string> present_;
};

// The path of a key: list indices are left out, so that `kernels.layers.0.only` is `kernels.layers.only`.
std::string path_without_indices(const std::string& path);

}  // namespace strata::configs
