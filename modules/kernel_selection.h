// SPDX-License-Identifier: MIT
// The level of every op for one layer, resolved from the `kernels:` section before the model is built.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/level.h"
#include "modules/kernels_config.h"

namespace strata::modules {

using KernelSelection = PerOp<kernels::Level>;

// Ops that nobody asks for are at aten here, and "-" in the table.
KernelSelection kernels_for_layer(const KernelsConfig& config, int64_t layer);
// For what is outside of the layers: embedding, final norm, head and loss, optimizer.
KernelSelection kernels_for_root(const KernelsConfig& config);

// The resolved layer x op table as text; layers with the same levels share a line.
std::string kernel_table(const KernelsConfig& config, int64_t layers);

}  // namespace strata::modules
