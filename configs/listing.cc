// SPDX-License-Identifier: MIT
#include "configs/listing.h"

#include <algorithm>
#include <map>

#include "base/text/joined.h"

namespace strata::configs {
namespace {

std::string inside(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

// Returns the value as YAML, or nothing if the field has no value.
std::optional<std::string> yaml_of(const Content& content) {
  if (!content.is_list) return content.values.empty() ? std::nullopt : std::optional(yaml_of(content.values[0]));
  return "[" + joined(content.values, ", ", [](const auto& value) { return yaml_of(value); }) + "]";
}

std::string origin_of(const Places& places, const std::string& path) {
  // If one element of a list was overridden, the override is the origin of the whole list.
  const std::string inner = path + ".";
  for (auto below = places.lower_bound(inner); below != places.end() && below->first.starts_with(inner); ++below) {
    if (below->second.source && below->second.source->is_override) return below->second.origin();
  }
  const auto place = places.find(path);
  return place == places.end() ? Place{}.origin() : place->second.origin();
}

std::string plain_of(const Content& content, const std::string& yaml) {
  if (content.is_list || content.values.empty()) return yaml;
  const std::string* text = std::get_if<std::string>(&content.values[0]);
  return text ? *text : yaml;
}

// Calls the visitor for all contents of a section, in order: value(name, yaml, plain), section(name, Section) and
// sections(name, all).
template <class Visitor>
void visit(const Section& section, Visitor&& visitor) {
  if (section.choice) {
    const std::string& selected = section.choice->alternatives.at(section.choice->selected());
    visitor.value(section.choice->name, selected, selected);
    visit(section.choice->current(), visitor);
  }
  for (const Field& field : section.fields) {
    if (field.section) {
      visitor.section(field.name, field.section());
    } else if (field.all) {
      visitor.sections(field.name, field.all());
    } else {
      const Content content = field.get();
      if (const auto yaml = yaml_of(content)) visitor.value(field.name, *yaml, plain_of(content, *yaml));
    }
  }
}

struct Lister {
  const Places& places;
  std::string path = {};
  std::vector<Line> lines = {};

  void value(const std::string& name, const std::string& yaml, const std::string& plain) {
    const std::string key = inside(path, name);
    lines.push_back({key, yaml, plain, origin_of(places, key)});
  }
  void section(const std::string& name, const Section& section) {
    Lister inner{places, inside(path, name)};
    visit(section, inner);
    lines.insert(lines.end(), inner.lines.begin(), inner.lines.end());
  }
  void sections(const std::string& name, const std::vector<Section>& all) {
    for (size_t i = 0; i < all.size(); ++i) section(name + "." + std::to_string(i), all[i]);
    if (all.empty()) value(name, "[]", "[]");
  }
};

struct YamlWriter {
  const Places& places;
  std::string path = {}, indentation = {};
  std::string text = {};
  bool begins_item = false;  // true if the next line starts an element of a list

  std::string margin() {
    if (!begins_item) return indentation;
    begins_item = false;
    return indentation.substr(2) + "- ";
  }
  void value(const std::string& name, const std::string& yaml, const std::string&) {
    text += margin() + name + ": " + yaml + "  # " + origin_of(places, inside(path, name)) + "\n";
  }
  void section(const std::string& name, const Section& section) {
    YamlWriter inner{places, inside(path, name), indentation + "  "};
    visit(section, inner);
    if (!inner.text.empty()) text += margin() + name + ":\n" + inner.text;
  }
  void sections(const std::string& name, const std::vector<Section>& all) {
    if (all.empty()) return value(name, "[]", "[]");
    text += margin() + name + ":\n";
    for (size_t i = 0; i < all.size(); ++i) {
      YamlWriter inner{places, inside(path, name) + "." + std::to_string(i), indentation + "    "};
      inner.begins_item = true;
      visit(all[i], inner);
      text += inner.text;
    }
  }
};

// Returns the lines whose path is in `compared`, or neither in `ignored` nor below a path in `ignored`.
std::vector<Line> without(const std::vector<Line>& lines, const std::vector<std::string>& ignored,
                          const std::vector<std::string>& compared) {
  std::vector<Line> kept;
  for (const Line& line : lines) {
    const bool drop = std::any_of(ignored.begin(), ignored.end(), [&](const std::string& key) {
      return line.path == key || line.path.starts_with(key + ".");
    });
    if (!drop || std::find(compared.begin(), compared.end(), line.path) != compared.end()) kept.push_back(line);
  }
  return kept;
}

}  // namespace

std::vector<Line> list_values(const Section& section, const Places& places) {
  Lister lister{places};
  visit(section, lister);
  return lister.lines;
}

std::string resolved_yaml(const Section& section, const Places& places) {
  YamlWriter writer{places};
  visit(section, writer);
  return writer.text;
}

std::vector<std::string> differences(const std::vector<Line>& before, const std::vector<Line>& now,
                                     const std::vector<std::string>& ignored,
                                     const std::vector<std::string>& compared) {
  std::map<std::string, std::string> old_values, new_values;
  std::vector<std::string> order;
  for (const Line& line : without(before, ignored, compared)) old_values[line.path] = line.value;
  for (const Line& line : without(now, ignored, compared)) {
    new_values[line.path] = line.value;
    order.push_back(line.path);
  }
  for (const auto& [path, value] : old_values) {
    if (!new_values.contains(path)) order.push_back(path);
  }
  const auto shown = [](const std::map<std::string, std::string>& values, const std::string& path) {
    const auto known = values.find(path);
    return known == values.end() ? std::string("absent") : known->second;
  };
  std::vector<std::string> result;
  for (const std::string& path : order) {
    const std::string was = shown(old_values, path), is = shown(new_values, path);
    if (was != is) result.push_back(path + ": was " + was + ", now " + is);
  }
  return result;
}

}  // namespace strata::configs
