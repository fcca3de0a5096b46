// SPDX-License-Identifier: MIT
#include "trainer/levels/untimed_formats.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/joined.h"
#include "base/word_of.h"
#include "kernels/linear/fp8_products.h"
#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"
#include "trainer/levels/format_choice.h"
#include "trainer/levels/kernel_plan.h"

namespace strata::trainer {
namespace {

// The narrowest layers that were measured to be faster in FP8 belong to Llama 3.2 1B: docs/performance.md.
constexpr int64_t kNarrowestThatWon = 2048;

// True if the plan of the run has set this key. It has then also timed the format.
bool is_planned(const LoadedConfig& loaded, const std::string& path) {
  const auto place = loaded.places.find(path);
  return loaded.config.kernels.planned && place != loaded.places.end() && place->second.source &&
         place->second.source->name == loaded.config.kernels.plan;
}

}  // namespace

std::string untimed_formats(const LoadedConfig& loaded, const std::vector<modules::Module>& modules) {
  const TrainerConfig& config = loaded.config;
  const modules::LinearFormatsConfig& formats = config.precision.linear;
  if (!is_multiplied(formats) || config.run.device == sharding::DeviceWish::cpu) return "";
  std::vector<std::string> narrow;
  for (const modules::Module& module : modules) {
    const auto of_module = formats.of(module.name);
    if (!module.product || !of_module) continue;
    const modules::ChosenLevel chosen = modules::chosen_level(config.kernels, module.name, "linear");
    const int64_t inputs = module.product->inputs, outputs = module.product->outputs;
    if (!chosen.level || is_planned(loaded, chosen.path)) continue;  // without a level, a plan will decide
    if (!kernels::multiplies_in_fp8(*of_module, *chosen.level, inputs, outputs)) continue;
    const std::string name(modules::name_in_layer(module.name));
    const bool is_narrow = std::min(inputs, outputs) < kNarrowestThatWon;
    if (is_narrow && std::ranges::find(narrow, name) == narrow.end()) narrow.push_back(name);
  }
  if (narrow.empty()) return "";
  const std::string compute = word_of(config.precision.compute);
  return "precision.linear: whether " + formats.text() + " is faster than " + compute + " is not measured for " +
         joined(narrow, ", ") + ", with inputs or outputs below " + std::to_string(kNarrowestThatWon) +
         ", the narrowest that were measured to be faster; to time each layer: " + command_for_plan(loaded) +
         "; kernels.default: best follows it and keeps what is not faster in " + compute;
}

}  // namespace strata::trainer
