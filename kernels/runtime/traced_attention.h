// SPDX-License-Identifier: MIT
// Meta kernels of the attention of ATen, which add_meta_kernels() registers.
#pragma once

#include <torch/library.h>

namespace strata::kernels {

void add_meta_attention(torch::Library& aten);

}  // namespace strata::kernels
