// SPDX-License-Identifier: MIT
// Gathers rows of sequences that are split over a group of ranks, and sums the gradients of these rows.
#pragma once

#include <ATen/core/Tensor.h>

#include "sharding/communication/communicator.h"

namespace strata::trainer {

// own_part [B, T / n, W], the two chunks that a rank has of each sequence (modules::SequencePart) -> [B, T, W], all
// positions in order. Collective over the n ranks of the group, and so is its backward. Gradients are summed over ranks
// in fp32 or wider. The group must outlive every backward.
at::Tensor gather_sequence(const at::Tensor& own_part, sharding::Communicator& group);

}  // namespace strata::trainer
