// SPDX-License-Identifier: MIT
#include "modules/config/sparsity_config.h"

#include "base/text/word_of.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

// Returns what is wrong with the first pruned layer that has a problem.
std::string problem_of_layers(const SparsityConfig& sparsity, const LinearFormatsConfig& formats,
                              const std::vector<DeclaredModule>& modules) {
  const std::string pattern = word_of(sparsity.pattern);
  for (const DeclaredModule& module : modules) {
    if (!module.product || !sparsity.prunes(module.name)) continue;
    if (module.product->inputs % kernels::kPruneGroup != 0) {
      return pattern + " prunes groups of four inputs, which do not divide the " +
             std::to_string(module.product->inputs) + " inputs of " + module.name +
             "; expected another width, or `only` without " + std::string(name_in_layer(module.name));
    }
    if (sparsity.mask == kernels::PruneMask::transposable && module.product->outputs % kernels::kPruneGroup != 0) {
      return "a transposable mask prunes groups of four outputs, which do not divide the " +
             std::to_string(module.product->outputs) + " outputs of " + module.name + "; expected mask: rows";
    }
    if (formats.of(module)) {
      return module.name + " has the number format " + formats.text() +
             " of precision.linear too; expected one of the two for each layer";
    }
  }
  return "";
}

}  // namespace

bool SparsityConfig::prunes(std::string_view module) const { return is_on() && covers(only, module); }

void check(const SparsityConfig& sparsity, bool has_blocks, configs::Checks& checks) {
  if (!checks.can_check({"pattern"})) return;
  if (!sparsity.is_on()) {
    const SparsityConfig unused;
    if (sparsity.mask != unused.mask) checks.fail("mask", "changes nothing with pattern: none");
    if (sparsity.only != unused.only) checks.fail("only", "changes nothing with pattern: none");
    if (sparsity.decay != unused.decay) checks.fail("decay", "changes nothing with pattern: none");
    if (sparsity.from_step != unused.from_step) checks.fail("from_step", "changes nothing with pattern: none");
  } else if (!has_blocks) {
    checks.fail("pattern", "expected none, because the products of a graph_network take no sparsity, got " +
                               word_of(sparsity.pattern));
  }
}

void check_modules(const SparsityConfig& sparsity, const LinearFormatsConfig& formats,
                   const std::vector<DeclaredModule>& modules, configs::Checks& checks) {
  if (!sparsity.is_on()) return;
  const std::string name = problem_of_linear_layer(sparsity.only, "sparsity", modules);
  if (!name.empty()) checks.fail("only", name);
  const std::string layer = problem_of_layers(sparsity, formats, modules);
  if (!layer.empty()) checks.fail("pattern", layer);
}

std::vector<std::string> pruned_weights(const SparsityConfig& sparsity, const std::vector<DeclaredModule>& modules) {
  std::vector<std::string> names;
  for (const DeclaredModule& module : modules) {
    if (module.product && sparsity.prunes(module.name)) names.push_back(joined_name(module.name, "weight"));
  }
  return names;
}

}  // namespace strata::modules
