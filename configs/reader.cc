// SPDX-License-Identifier: MIT
#include "configs/reader.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/text/nearest_name.h"
#include "configs/new_names.h"

namespace strata::configs {
namespace {

class Reader {
 public:
  Reader(const Node& root, KnownKeysOf known, ErrorList& errors) : root_(root), known_(known), errors_(errors) {}

  void read_section(const Node& node, Section section, const std::string& path, const Place& place) {
    if (node.kind != Node::Kind::map) {
      errors_.add(node.place, path, "expected a section (keys and values), got " + node.described());
      errors_.spoil(path);
      return;
    }
    if (path.empty()) renamed_ = section.renamed;
    std::set<std::string> tolerated;  // keys of all alternatives, if the selected one is unknown
    if (section.choice) select_alternative(node, path, section, tolerated);
    read_entries(node, section, path, tolerated);
    if (section.complete) section.complete();
    find_missing(node, section, path, place);
  }

  Places take() && { return std::move(places_); }

  // Reports required keys that are absent, except those that an unknown key was probably meant for.
  void report_missing() {
    for (const Missing& missing : missing_) {
      if (meant_.contains(missing.path)) {
        errors_.spoil(missing.path);
      } else {
        errors_.add(missing.place, missing.path, "missing; expected " + missing.expected);
      }
    }
  }

 private:
  struct Missing {
    Place place;
    std::string path, expected;
  };

  static std::string inside(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  // Adds the fields of the alternative that the tag selects. A wrong tag is reported, and the fields of the nearest
  // alternative are read. If no alternative is near, the keys of all alternatives are accepted.
  void select_alternative(const Node& node, const std::string& path, Section& section,
                          std::set<std::string>& tolerated) {
    const Choice& choice = *section.choice;
    const auto& all = choice.alternatives;
    std::string selected = all.size() == 1 ? all[0] : "";
    if (const NodePtr tag = node.find(choice.name)) {
      const ValueOrProblem read = parse_value(*tag, {.kind = ValueType::Kind::word, .words = all});
      if (read.value) {
        selected = std::get<std::string>(*read.value);
      } else {
        errors_.add(tag->place, inside(path, choice.name), read.problem);
        const std::string nearest = nearest_name(tag->text, all);
        if (!nearest.empty()) selected = nearest;
      }
    }
    if (!selected.empty()) {
      const auto index = std::find(all.begin(), all.end(), selected) - all.begin();
      Section alternative = choice.select(static_cast<size_t>(index));
      section.fields.insert(section.fields.begin(), std::make_move_iterator(alternative.fields.begin()),
                            std::make_move_iterator(alternative.fields.end()));
      if (alternative.complete) section.complete = alternative.complete;
      return;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      for (const Field& field : choice.select(i).fields) tolerated.insert(field.name);
    }
    for (const std::string& name : tolerated) errors_.spoil(inside(path, name));
  }

  void read_entries(const Node& node, const Section& section, const std::string& path,
                    const std::set<std::string>& tolerated) {
    std::map<std::string, Place> seen;
    for (const Node::Entry& entry : node.entries) {
      const std::string key_path = inside(path, entry.key);
      const auto [first, is_new] = seen.emplace(entry.key, entry.key_place);
      if (!is_new) {
        errors_.add(entry.key_place, key_path, "duplicate key; it stands already at " + first->second.text());
        continue;
      }
      places_[key_path] = entry.key_place;
      if (section.choice && entry.key == section.choice->name) continue;
      const auto field = std::find_if(section.fields.begin(), section.fields.end(),
                                      [&](const Field& known) { return known.name == entry.key; });
      if (field != section.fields.end()) {
        read_field(*field, entry, key_path);
      } else if (!tolerated.contains(entry.key)) {
        report_unknown(section, path, entry);
      }
    }
  }

  void report_unknown(const Section& section, const std::string& path, const Node::Entry& entry) {
    const std::string key_path = inside(path, entry.key);
    if (entry.key == "<<") {
      errors_.add(entry.key_place, key_path, "merge keys are not supported; write the keys out");
      return;
    }
    if (const std::string now = renamed_path(key_path, renamed_); !now.empty()) {
      meant_.insert(now);
      errors_.add(entry.key_place, key_path, "was renamed to " + now);
      return;
    }
    if (errors_.has_too_many()) {
      errors_.add(entry.key_place, key_path, "unknown key");
      return;
    }
    if (!finder_) finder_.emplace(known_(), root_);
    const KeyFinder::Meant meant = finder_->meant(path, entry.key);
    if (!meant.belongs_to.empty()) {
      errors_.add(entry.key_place, key_path, "unknown key here; it belongs to " + meant.belongs_to);
      return;
    }
    if (!meant.path.empty()) {
      meant_.insert(inside(path, meant.shown));  // path with list indices
      meant_.insert(meant.path);
      errors_.add(entry.key_place, key_path, "unknown key" + did_you_mean(meant.shown));
      return;
    }
    std::string known;
    if (section.choice) known = section.choice->name;
    for (const Field& field : section.fields) known += (known.empty() ? "" : ", ") + field.name;
    errors_.add(entry.key_place, key_path, "unknown key; expected one of: " + known);
  }

  void read_field(const Field& field, const Node::Entry& entry, const std::string& path) {
    const Node& node = *entry.value;
    if (field.section) {
      read_section(node, field.section(), path, entry.key_place);
    } else if (field.append) {
      read_sections(field, node, path);
    } else if (node.kind == Node::Kind::list && field.element) {
      read_list(field, node, path);
    } else if (field.value) {
      const ValueOrProblem read = parse_value(node, *field.value);
      if (read.value) {
        field.set({.values = {*read.value}});
      } else {
        const bool wrong_form = node.kind != Node::Kind::scalar;
        const std::string got = "expected " + field.expected() + ", got " + node.described();
        errors_.add(node.place, path, wrong_form ? got : read.problem);
      }
    } else {
      errors_.add(node.place, path, "expected " + field.expected() + ", got " + node.described());
    }
  }

  void read_list(const Field& field, const Node& node, const std::string& path) {
    if (field.list_length != 0 && node.items.size() != field.list_length) {
      errors_.add(node.place, path, "expected " + field.expected() + ", got " + node.described());
      return;
    }
    Content content{.is_list = true};
    for (size_t i = 0; i < node.items.size(); ++i) {
      const ValueOrProblem read = parse_value(*node.items[i], *field.element);
      if (read.value) {
        content.values.push_back(*read.value);
        places_[path + "." + std::to_string(i)] = node.items[i]->place;
      } else {
        errors_.add(node.items[i]->place, path + "." + std::to_string(i), read.problem);
      }
    }
    if (content.values.size() == node.items.size()) field.set(content);
  }

  void read_sections(const Field& field, const Node& node, const std::string& path) {
    if (node.kind != Node::Kind::list) {
      errors_.add(node.place, path, "expected " + field.expected() + ", got " + node.described());
      return;
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_path = path + "." + std::to_string(i);
      places_[item_path] = node.items[i]->place;
      read_section(*node.items[i], field.append(), item_path, node.items[i]->place);
    }
  }

  void find_missing(const Node& node, const Section& section, const std::string& path, const Place& place) {
    if (section.choice && !node.find(section.choice->name)) {
      const ValueType words = {.kind = ValueType::Kind::word, .words = section.choice->alternatives};
      missing_.push_back({place, inside(path, section.choice->name), words.expected()});
    }
    for (const Field& field : section.fields) {
      if (field.required && !node.find(field.name)) {
        missing_.push_back({place, inside(path, field.name), field.expected()});
      }
    }
  }

  const Node& root_;
  KnownKeysOf known_;
  ErrorList& errors_;
  std::optional<KeyFinder> finder_;  // made at the first unknown key
  Places places_;
  std::vector<Missing> missing_;
  std::set<std::string> meant_;
  std::vector<RenamedKey> renamed_;
};

}  // namespace

Places read_document(const Node& root, Section target, KnownKeysOf known, ErrorList& errors) {
  Reader reader(root, known, errors);
  reader.read_section(root, std::move(target), "", root.place);
  reader.report_missing();
  return std::move(reader).take();
}

Place place_of(const Places& places, std::string path) {
  while (true) {
    if (const auto known = places.find(path); known != places.end()) return known->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos) return {};
    path.resize(dot);
  }
}

}  // namespace strata::configs
