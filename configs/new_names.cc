// SPDX-License-Identifier: MIT
#include "configs/new_names.h"

#include <algorithm>
#include <memory>

#include "configs/key_finder.h"

namespace strata::configs {
namespace {

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Copies only nodes in which an old name may be. The others are shared with the document.
NodePtr renamed_node(const NodePtr& node, const std::string& path, const std::vector<RenamedKey>& renamed) {
  const auto reaches = [&](const RenamedKey& key) { return path.empty() || key.was.starts_with(path + "."); };
  if (!node || std::ranges::none_of(renamed, reaches)) return node;
  auto copy = std::make_shared<Node>(*node);
  for (NodePtr& item : copy->items) item = renamed_node(item, path, renamed);
  for (Node::Entry& entry : copy->entries) {
    const std::string inner = path.empty() ? entry.key : path + "." + entry.key;
    entry.value = renamed_node(entry.value, inner, renamed);
    const std::string now = renamed_path(inner, renamed);
    if (!now.empty()) entry.key = last_part(now);
  }
  return copy;
}

}  // namespace

std::string renamed_path(const std::string& path, const std::vector<RenamedKey>& renamed) {
  const std::string plain = path_without_indices(path);
  const auto found = std::ranges::find(renamed, plain, &RenamedKey::was);
  if (found == renamed.end()) return "";
  return path.substr(0, path.size() - last_part(path).size()) + last_part(found->now);
}

NodePtr with_new_names(const NodePtr& root, const std::vector<RenamedKey>& renamed) {
  return renamed_node(root, "", renamed);
}

}  // namespace strata::configs
