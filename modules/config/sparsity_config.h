// SPDX-License-Identifier: MIT
// The `sparsity:` section: linear layers whose weights are pruned to a pattern in their products.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "kernels/sparsity/prune_group.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"

namespace strata::modules {

enum class SparsityPattern { none, two_of_four };
constexpr std::array<std::string_view, 2> names(SparsityPattern) { return {"none", "2:4"}; }

enum class SparsityMethod { sr_ste };
constexpr std::array<std::string_view, 1> names(SparsityMethod) { return {"sr_ste"}; }

struct SparsityConfig {
  SparsityPattern pattern = SparsityPattern::none;
  SparsityMethod method = SparsityMethod::sr_ste;
  kernels::PruneMask mask = kernels::PruneMask::rows;
  std::string only = "blocks";
  double decay = 2e-4;
  int64_t from_step = 1;

  bool operator==(const SparsityConfig&) const = default;

  bool is_on() const { return pattern != SparsityPattern::none; }
  // True if weights are pruned in this step, counted from 1, and in what follows it: evaluations and exports. Step 0 is
  // what comes before the first one.
  bool is_on_in(int64_t step) const { return is_on() && (from_step == 1 || step >= from_step); }
  // True if a linear layer of this full name has a pruned weight.
  bool prunes(std::string_view module) const;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add(
        "pattern", pattern,
        "2:4: linear layers multiply with two of each four neighboring weights along the inputs, and with zeros for "
        "the others; at level cuda of op linear, in 16 bits, sparse tensor cores multiply in the "
        "forward, and elsewhere it is emulated; none: weights are dense; docs/sparsity.md has more");
    fields.add("method", method,
               "how the weights learn; sr_ste: all weights stay and take the gradient of the product, and decay draws "
               "pruned ones to zero (Zhou et al. 2021)");
    fields.add(
        "mask", mask,
        "rows: the two largest of each four weights along the inputs are kept; transposable: of each 4 x 4 weights "
        "two along the inputs and two along the outputs, so that sparse tensor cores also multiply in the gradient "
        "of x");
    fields.add("only", only,
               "modules whose linear layers are pruned, named as in kernels.modules: blocks, mlp, blocks.0-3 or "
               "blocks.2.attention.qkv");
    fields.add("decay", decay,
               "lambda of SR-STE: the gradient of a pruned weight w is larger by decay * w; 0: straight-through "
               "gradients alone",
               configs::between(0, 1000));
    fields.add("from_step", from_step, "first step in which weights are pruned; all are dense before it",
               configs::between(1, 1e12));
  }
};

// Rules of the section alone. `has_blocks` is false for a model whose linear layers take no sparsity.
void check(const SparsityConfig& sparsity, bool has_blocks, configs::Checks& checks);

// Rules between the section, the number formats of the run, and the modules that the model declares.
void check_modules(const SparsityConfig& sparsity, const LinearFormatsConfig& formats,
                   const std::vector<DeclaredModule>& modules, configs::Checks& checks);

// Returns the names of the weights that are pruned.
std::vector<std::string> pruned_weights(const SparsityConfig& sparsity, const std::vector<DeclaredModule>& modules);

}  // namespace strata::modules
