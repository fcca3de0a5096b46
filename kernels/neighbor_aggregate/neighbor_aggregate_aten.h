// SPDX-License-Identifier: MIT
// The two sides of level aten: loops over rows for CPUs, and LibTorch's segment operators for GPUs.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::kernels {

NeighborAggregateOp::Forward aggregate_by_loops;
NeighborAggregateOp::Backward aggregate_backward_by_loops;
NeighborAttentionOp::Forward attend_by_loops;
NeighborAttentionOp::Backward attend_backward_by_loops;

// On any device. Messages exist for some features at a time.
NeighborAggregateOp::Forward aggregate_by_segments;
NeighborAggregateOp::Backward aggregate_backward_by_segments;
NeighborAttentionOp::Forward attend_by_segments;
NeighborAttentionOp::Backward attend_backward_by_segments;

// fp32 or wider, in which `type` is summed.
inline at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace strata::kernels
