// SPDX-License-Identifier: MIT
#include "configs/overrides.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace strata::configs {
namespace {

struct Refused {
  std::string message;
};

// Splits a path such as a.b.0 into its parts. Returns an empty list if `path` is not a valid path.
std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    const auto in_name = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
    if (parts.back().empty() || !std::all_of(parts.back().begin(), parts.back().end(), in_name)) return {};
    if (end == path.size()) return parts;
    begin = end + 1;
  }
}

// True if YAML takes the end of a text without quotes for a comment, as in `runs/new #2`. Two runs would share a
// folder.
bool ends_in_comment(const Node& value, const std::string& text) {
  if (value.kind != Node::Kind::scalar || value.quoted) return false;
  return text.find(" #") != std::string::npos || text.find("\t#") != std::string::npos;
}

// Returns the tree with `value` at the path. Nodes along the path are copied, because aliases share nodes.
NodePtr with_value(const NodePtr& node, const std::vector<std::string>& parts, size_t depth, const NodePtr& value) {
  if (depth == parts.size()) return value;
  const std::string& part = parts[depth];
  auto copy = std::make_shared<Node>();
  if (node) *copy = *node;
  if (!node || node->kind == Node::Kind::null) {
    copy->kind = Node::Kind::map;
    copy->place = value->place;
  }
  if (copy->kind == Node::Kind::map) {
    const auto entry = std::find_if(copy->entries.begin(), copy->entries.end(),
                                    [&](const Node::Entry& known) { return known.key == part; });
    const NodePtr before = entry == copy->entries.end() ? nullptr : entry->value;
    const NodePtr after = with_value(before, parts, depth + 1, value);
    if (entry == copy->entries.end()) {
      copy->entries.push_back({part, value->place, after});
    } else {
      entry->value = after;
      if (depth + 1 == parts.size()) entry->key_place = value->place;
    }
    return copy;
  }
  std::string above;
  for (size_t i = 0; i < depth; ++i) above += (i == 0 ? "" : ".") + parts[i];
  if (copy->kind != Node::Kind::list)
    throw Refused{"expected a section or a list at " + above + ", got " + copy->described()};
  size_t index = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != part.data() + part.size() || index >= copy->items.size()) {
    throw Refused{"expected an element of " + above + ", " + copy->described() + " counted from 0, got '" + part + "'"};
  }
  copy->items[index] = with_value(copy->items[index], parts, depth + 1, value);
  return copy;
}

}  // namespace

NodePtr apply_override(const NodePtr& root, const std::string& override_text, ErrorList& errors) {
  auto source = std::make_shared<Source>(Source{.name = override_text, .text = "", .is_override = true});
  const Place place = {source, 0, 0};
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos) {
    errors.add(place, "", "expected key=value, got no '='");
    return root;
  }
  const std::string path = override_text.substr(0, equals);
  const std::vector<std::string> parts = split_path(path);
  if (parts.empty()) {
    const bool dashes = path.starts_with('-');
    errors.add(place, "",
               std::string("expected a key such as optimizer.learning_rate before '='") +
                   (dashes ? ", without dashes" : ", got '" + path + "'"));
    return root;
  }
  if (parts.size() > kMostLevels) {
    errors.add(
        place, "",
        "expected a key of at most " + std::to_string(kMostLevels) + " parts, got " + std::to_string(parts.size()));
    return root;
  }
  source->text = override_text.substr(equals + 1);
  if (source->text.find_first_not_of(" \t\r\n") == std::string::npos) {
    errors.add(place, path, "expected a value after '=', got none");
    return root;
  }
  const NodePtr value = parse_document(source, path, errors);
  if (!value) return root;
  if (ends_in_comment(*value, source->text)) {
    errors.add(place, path,
               "expected a value without a comment, got '" + value->text +
                   "' and a comment after it; a text with ' #' needs quotes inside the shell's: '\"...\"'");
    return root;
  }
  try {
    return with_value(root, parts, 0, value);
  } catch (const Refused& refused) {
    errors.add(place, path, refused.message);
    return root;
  }
}

}  // namespace strata::configs
