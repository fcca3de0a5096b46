// SPDX-License-Identifier: MIT
// Finds the key that a user most likely meant by an unknown key.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "configs/document.h"
#include "configs/fields.h"

namespace strata::configs {

// All keys of a configuration, with the keys of all alternatives.
class KnownKeys {
 public:
  struct Key {
    std::string path, section, name;
    bool is_section = false, required = false;
    std::vector<std::string> alternatives = {};  // alternatives of the section that have the key; empty: all
  };

  // `prototype` has all fields, bound to an object that is modified.
  explicit KnownKeys(const Section& prototype) { collect(prototype, "", ""); }

  const std::vector<Key>& all() const { return keys_; }
  // True if a known key is in the section.
  bool has_section(const std::string& path) const { return sections_.contains(path); }

 private:
  void collect(const Section& section, const std::string& path, const std::string& alternative);

  std::vector<Key> keys_;
  std::map<std::string, size_t> index_;  // index of a path in keys_
  std::set<std::string> sections_;
};

class KeyFinder {
 public:
  // `root` is the document: keys that it already has are less likely meant. `known` must outlive this object.
  KeyFinder(const KnownKeys& known, const Node& root) : known_(known) { collect_present(root, ""); }

  struct Meant {
    std::string path;   // path of the key that was meant; empty if none is similar
    std::string shown;  // name of that key, or its path if it is in another section
    // Set if the unknown key belongs to another alternative of this section, such as "type: wsd". Otherwise empty.
    std::string belongs_to = {};
  };
  Meant meant(const std::string& section_path, const std::string& key) const;

 private:
  void collect_present(const Node& node, const std::string& path);

  const KnownKeys& known_;
  std::set<std::string> present_;
};

// Returns the path of a key without list indices: `kernels.layers.0.only` gives `kernels.layers.only`.
std::string path_without_indices(const std::string& path);

}  // namespace strata::configs
