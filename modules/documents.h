// SPDX-License-Identifier: MIT
// The packed documents of a micro-batch, which attention keeps apart. Tasks put them into the context of a step.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::modules {

using at::Tensor;

struct Documents {
  Tensor offsets;    // see kernels::AttentionMask
  Tensor positions;  // int64 [B, T]: of each token in its document; undefined where only attention reads the documents
};

}  // namespace strata::modules
