// SPDX-License-Identifier: MIT
// Formats the level of each op, and the number format and the sparsity of each product in each layer as a text: the
// content of `kernels.txt`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runtime/gpus.h"
#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"
#include "modules/config/sparsity_config.h"

namespace strata::modules {

// Lists the ops that these modules compute. Neighboring layers with the same levels share a column. An op with
// different levels in the modules of one layer has one row per module.
std::string level_table(const KernelsConfig& config, const std::vector<DeclaredModule>& modules);

// Lists the number formats of linear layers in the same way, and says which are emulated. `gpu` is that of the run, if
// it is known. A last line has the reason if only other GPUs multiply the format. Empty if no module has a format.
std::string format_table(const KernelsConfig& config, const LinearFormatsConfig& formats,
                         const std::vector<DeclaredModule>& modules, const std::optional<kernels::Gpu>& gpu = {});

// Lists the linear layers with a pruned weight in the same way, and says what of them is emulated. Last lines have the
// reasons, and how many rows sparse tensor cores need. Empty if there is none. `in_bfloat16` is true for a group that
// computes in bfloat16.
std::string sparsity_table(const KernelsConfig& config, const SparsityConfig& sparsity,
                           const std::vector<DeclaredModule>& modules,
                           const std::function<bool(const std::string& group)>& in_bfloat16);

}  // namespace strata::modules
