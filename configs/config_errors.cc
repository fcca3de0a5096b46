// SPDX-License-Identifier: MIT
#include "configs/config_errors.h"

#include <algorithm>
#include <tuple>

namespace strata::configs {

void ErrorList::add(const Place& place, const std::string& path, const std::string& message) {
  errors_.push_back({place, path, message});
  if (!path.empty()) spoiled_.insert(path);
}

bool ErrorList::read_well(const std::string& path) const {
  if (spoiled_.empty()) return true;
  if (spoiled_.contains("")) return false;
  for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1)) {
    if (spoiled_.contains(path.substr(0, end))) return false;
  }
  if (spoiled_.contains(path)) return false;
  const auto below = spoiled_.lower_bound(path + ".");
  return below == spoiled_.end() || !below->starts_with(path + ".");
}

std::string ErrorList::report() const {
  std::vector<Entry> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    const auto rank = [](const Entry& entry) {
      const bool is_override = entry.place.source && entry.place.source->is_override;
      return is_override ? std::tuple(true, 0, 0) : std::tuple(false, entry.place.line, entry.place.column);
    };
    return rank(a) < rank(b);
  });
  constexpr size_t kShown = 100;
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    const Entry& entry = sorted[i];
    text += entry.place.text() + ": ";
    if (!entry.path.empty()) text += entry.path + ": ";
    text += entry.message + "\n" + entry.place.excerpt();
  }
  if (sorted.size() > kShown) text += "and " + std::to_string(sorted.size() - kShown) + " more\n";
  if (sorted.size() > 1) text += std::to_string(sorted.size()) + " errors in the configuration\n";
  return text;
}

void ErrorList::throw_if_any() const {
  if (!errors_.empty()) throw ConfigErrors(report());
}

}  // namespace strata::configs
