// SPDX-License-Identifier: MIT
#include "trainer/level_check.h"

#include <c10/util/Exception.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "kernels/levels.h"
#include "trainer/used_shapes.h"

namespace strata::trainer {
namespace {

using kernels::Level;

// The level of an op, and the key that says so.
struct Chosen {
  std::string path;
  Level level;
};

std::optional<Level> level_of(modules::OpLevels levels, const std::string& key) {
  std::optional<Level> found;
  levels.each([&](const char* name, const std::optional<Level>& level) {
    if (name == key) found = level;
  });
  return found;
}

// `layer` absent: before or behind the layers.
Chosen chosen(const modules::KernelsConfig& kernels, const std::string& key, std::optional<int64_t> layer) {
  for (size_t i = kernels.layers.size(); layer && i-- > 0;) {
    if (!kernels.layers[i].only.contains(*layer)) continue;
    const std::optional<Level> level = level_of(kernels.layers[i].levels, key);
    if (level) return {"kernels.layers." + std::to_string(i) + "." + key, *level};
  }
  if (const std::optional<Level> level = level_of(kernels.levels, key)) return {"kernels." + key, *level};
  return {"kernels.default", kernels.default_level.value_or(Level::aten)};
}

}  // namespace

void check_levels(const LoadedConfig& loaded, c10::DeviceType device) {
  configs::ErrorList errors;
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> refused;
  const auto look_at = [&](const std::string& op, std::optional<int64_t> layer) {
    const auto [path, level] = chosen(loaded.config.kernels, std::string(kernels_key(op)), layer);
    if (!seen.emplace(path, op).second || refused.contains(path)) return;
    try {
      kernels::require_level(path, op, level, device);
    } catch (const c10::Error& error) {
      refused.insert(path);
      errors.add(configs::place_of(loaded.places, path), /*path=*/"", error.what_without_backtrace());
    }
  };
  const UsedOps ops = used_ops(loaded.config);
  for (const std::string& op : ops.outside) look_at(op, std::nullopt);
  const int64_t layers = std::visit([](const auto& model) { return model.layers; }, loaded.config.model.type);
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const std::string& op : ops.in_layers) look_at(op, layer);
  }
  errors.throw_if_any();
}

}  // namespace strata::trainer
