// SPDX-License-Identifier: MIT
// Level aten of both ops: loops over rows for CPUs, and LibTorch's segment operators for GPUs.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::kernels {

NeighborAggregateOp::Forward aggregate_by_loops;
NeighborAggregateOp::Backward aggregate_backward_by_loops;
NeighborAttentionOp::Forward attend_by_loops;
NeighborAttentionOp::Backward attend_backward_by_loops;

// These work on any device. Only the messages of some features exist at a time.
NeighborAggregateOp::Forward aggregate_by_segments;
NeighborAggregateOp::Backward aggregate_backward_by_segments;
NeighborAttentionOp::Forward attend_by_segments;
NeighborAttentionOp::Backward attend_backward_by_segments;

// The dtype in which tensors of `type` are summed: fp32, or fp64 for fp64.
inline at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace strata::kernels
