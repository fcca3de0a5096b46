// SPDX-License-Identifier: MIT
#include "configs/key_finder.h"

#include <algorithm>
#include <tuple>

#include "base/text/nearest_name.h"

namespace strata::configs {
namespace {

constexpr size_t kLongestKey = 64;  // hostile keys of megabytes are not compared
constexpr int kFarthest = 100;      // distance of a name that other programs use: farther than any misspelling

std::string joined(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

}  // namespace

void KnownKeys::collect(const Section& section, const std::string& path, const std::string& alternative) {
  const auto add = [&](const std::string& name, bool is_section, bool required) {
    sections_.insert(path);
    const std::string key_path = joined(path, name);
    const auto [index, is_new] = index_.emplace(key_path, keys_.size());
    if (is_new) keys_.push_back({key_path, path, name, is_section, required});
    if (!alternative.empty()) keys_[index->second].alternatives.push_back(alternative);
  };
  if (section.choice) {
    const Choice& choice = *section.choice;
    add(choice.name, /*is_section=*/false, /*required=*/true);
    for (size_t i = 0; i < choice.alternatives.size(); ++i) {
      collect(choice.select(i), path, choice.name + ": " + choice.alternatives[i]);
    }
  }
  for (const Field& field : section.fields) {
    add(field.name, !field.is_value(), field.required);
    if (field.section) collect(field.section(), joined(path, field.name), "");
    if (field.append) collect(field.append(), joined(path, field.name), "");
  }
}

void KeyFinder::collect_present(const Node& node, const std::string& path) {
  // Only sections that the configuration knows are followed, so the result is not larger than the document.
  for (const Node::Entry& entry : node.entries) {
    const std::string inner = joined(path, entry.key);
    const bool first = present_.insert(inner).second;
    if (!first || !known_.has_section(inner)) continue;
    collect_present(*entry.value, inner);
    for (const NodePtr& item : entry.value->items) collect_present(*item, inner);
  }
}

KeyFinder::Meant KeyFinder::meant(const std::string& section_path, const std::string& key) const {
  if (key.size() > kLongestKey) return {};
  const std::string section = path_without_indices(section_path);
  // The key with the lowest rank wins: 2 per edit, 1 for another section, 3 for a key that the document already has. An
  // exact name in another section (1) thus comes before a misspelling in this one (2 or more). A name that another
  // program uses for the key counts as 100 edits. Among equal ranks, keys of outer sections win, then values, then
  // required keys.
  using Rank = std::tuple<int, int64_t, bool, bool>;
  Rank best = {1000, 0, false, false};
  Meant meant;
  for (const KnownKeys::Key& candidate : known_.all()) {
    const bool here = candidate.section == section;
    if (here && candidate.name == key) {
      Meant same{joined(section, key), key};
      for (const std::string& type : candidate.alternatives)
        same.belongs_to += (same.belongs_to.empty() ? "" : " or ") + type;
      return same;
    }
    const int allowed = here ? allowed_edits(key) : 1;
    int distance = edit_distance(key, candidate.name, allowed);
    if (distance > allowed) {
      if (!here || !is_called(key, candidate.name)) continue;
      distance = kFarthest;
    }
    const bool present = present_.contains(candidate.path);
    const Rank rank = {2 * distance + (here ? 0 : 1) + (present ? 3 : 0), std::ranges::count(candidate.section, '.'),
                       candidate.is_section, !candidate.required};
    if (rank >= best) continue;
    best = rank;
    meant.path = candidate.path;
    meant.shown = here ? candidate.name : meant.path;
  }
  return meant;
}

std::string path_without_indices(const std::string& path) {
  std::string result;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (!index && !part.empty()) result = joined(result, part);
    begin = end + 1;
  }
  return result;
}

}  // namespace strata::configs
