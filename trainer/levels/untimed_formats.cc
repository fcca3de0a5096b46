// SPDX-License-Identifier: MIT
#include "trainer/levels/untimed_formats.h"

#include <algorithm>
#include <cstdint>

#include "base/text/joined.h"
#include "base/text/word_of.h"
#include "kernels/linear/fp8_products.h"
#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"
#include "trainer/levels/format_choice.h"
#include "trainer/levels/kernel_plan.h"

namespace strata::trainer {
namespace {

// From this width on, all models that were measured train faster in FP8: docs/performance.md. Below it, layers of
// GPT-2 were measured to be slower: docs/formats.md.
constexpr int64_t kFasterFrom = 2048;

// True if the plan of the run has set this key. A plan that sets it has also timed the format.
bool is_planned(const LoadedConfig& loaded, const std::string& path) {
  const auto place = loaded.places.find(path);
  return loaded.config.kernels.planned && place != loaded.places.end() && place->second.source &&
         place->second.source->name == loaded.config.kernels.plan;
}

}  // namespace

std::string untimed_formats(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules) {
  const TrainerConfig& config = loaded.config;
  const modules::LinearFormatsConfig& formats = config.precision.linear;
  if (!is_multiplied(formats) || config.run.device == sharding::DeviceSetting::cpu) return "";
  std::vector<std::string> narrow;
  for (const modules::DeclaredModule& module : modules) {
    const auto module_format = formats.of(module);
    if (!module_format) continue;
    const modules::ChosenLevel chosen = modules::chosen_level(config.kernels, module.name, "linear");
    const int64_t inputs = module.product->inputs, outputs = module.product->outputs;
    if (!chosen.level || is_planned(loaded, chosen.path)) continue;  // without a level, a plan will decide
    if (!kernels::multiplies_in_fp8(*module_format, *chosen.level, inputs, outputs)) continue;
    const std::string name(modules::name_in_layer(module.name));
    const bool is_narrow = std::min(inputs, outputs) < kFasterFrom;
    if (is_narrow && std::ranges::find(narrow, name) == narrow.end()) narrow.push_back(name);
  }
  if (narrow.empty()) return "";
  const std::string compute = word_of(config.precision.compute);
  return "precision.linear: " + formats.text() + " may be slower than " + compute + " for " + joined(narrow, ", ") +
         ", because some layers with inputs or outputs below " + std::to_string(kFasterFrom) +
         " were measured to be slower; to time each layer: " + command_for_plan(loaded) +
         "; kernels.default: best follows it and keeps what is not faster in " + compute;
}

}  // namespace strata::trainer
