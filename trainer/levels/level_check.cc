// SPDX-License-Identifier: MIT
#include "trainer/levels/level_check.h"

#include <c10/util/Exception.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/joined.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/runtime/gpus.h"
#include "modules/config/kernel_selection.h"
#include "modules/config/linear_formats_config.h"
#include "trainer/levels/pattern_check.h"

namespace strata::trainer {
namespace {

using kernels::Level;

// Adds an error if kernels.architecture is newer than the GPU.
void add_newer_architecture(const LoadedConfig& loaded, const kernels::Gpu& gpu, configs::ErrorList& errors) {
  const std::optional<int64_t>& asked = loaded.config.kernels.architecture;
  if (!asked || gpu.capability >= *asked) return;
  const std::string path = "kernels.architecture";
  errors.add(configs::place_of(loaded.places, path), /*path=*/"",
             path + ": such code " + why_not_on_gpu({static_cast<int>(*asked)}, gpu) + "; remove this line");
}

// Returns what is wrong with linear layers at `level`, which multiplies codes, or "": products in FP8 are for Hopper
// alone.
std::string why_not_in_fp8(const modules::LinearFormatsConfig& formats, Level level,
                           const std::optional<kernels::Gpu>& gpu) {
  const bool is_asked =
      formats.format == modules::LinearFormat::fp8 && formats.scaling != modules::LinearScaling::block;
  const std::string problem = is_asked && gpu ? why_not_on_gpu(kernels::kHopper, *gpu) : "";
  if (problem.empty()) return "";
  return "fp8 of precision.linear at level " + std::string(name(level)) + " " + problem +
         "; write linear: aten, which emulates it";
}

// Adds an error for each line that sets the level of an op if no module that the line names computes it.
void add_unused_lines(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules,
                      configs::ErrorList& errors) {
  std::map<std::string, std::pair<std::string, bool>> lines;  // path -> op, and whether a module computes it
  std::set<std::string> computed;
  for (const modules::DeclaredModule& module : modules) {
    const std::set<std::string> ops(module.ops.begin(), module.ops.end());
    computed.insert(ops.begin(), ops.end());
    modules::for_each_line(loaded.config.kernels, module.name, [&](const std::string& prefix, modules::OpLevels set) {
      set.each([&](const std::string& op, const std::optional<Level>& level) {
        if (!level) return;
        auto& [name, used] = lines[prefix + op];
        name = op;
        used = used || ops.contains(op);
      });
    });
  }
  const std::string all = joined(computed, ", ");
  for (const auto& [path, line] : lines) {
    const auto& [op, used] = line;
    if (used) continue;
    errors.add(configs::place_of(loaded.places, path), /*path=*/"",
               path + ": no module that this line names computes " + op + "; the model computes " + all);
  }
}

}  // namespace

void check_levels(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules,
                  const kernels::Target& target) {
  configs::ErrorList errors;
  if (target.gpu) add_newer_architecture(loaded, *target.gpu, errors);
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> refused;
  const auto look_at = [&](std::string_view key, const std::string& module) {
    const modules::ChosenLevel chosen = modules::chosen_level(loaded.config.kernels, module, key);
    const std::string& path = chosen.path;
    if (!seen.emplace(path, key).second || refused.contains(path)) return;
    try {
      const kernels::Level level = chosen.or_aten();
      kernels::require_level(path, key, level, target);
      if (key != "linear" || !kernels::multiplies_codes(level)) return;
      const std::string problem = why_not_in_fp8(loaded.config.precision.linear, level, target.gpu);
      TORCH_CHECK_VALUE(problem.empty(), path, ": ", problem);
    } catch (const c10::Error& error) {
      refused.insert(path);
      errors.add(configs::place_of(loaded.places, path), /*path=*/"", error.what_without_backtrace());
    }
  };
  for (const modules::DeclaredModule& module : modules) {
    for (const std::string_view key : module.ops) look_at(key, module.name);
  }
  add_refused_patterns(loaded, target.gpu, errors);
  add_unused_lines(loaded, modules, errors);
  errors.throw_if_any();
}

}  // namespace strata::trainer
