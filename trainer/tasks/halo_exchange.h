// SPDX-License-Identifier: MIT
// Exchanges the halo of a graph that is split over ranks: rows of nodes in the forward, their gradients in the
// backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "kernels/runtime/level.h"
#include "sharding/communication/communicator.h"
#include "trainer/data/graphs/graph_partition.h"

namespace strata::trainer {

class HaloExchange {
 public:
  // The communicator must outlive this object and every backward.
  HaloExchange(const GraphPart& part, sharding::Communicator& world, kernels::Level level);

  // x [own nodes, D] -> [own nodes + halo, D]. Collective, and so is its backward, which adds the returned gradients in
  // rank order.
  at::Tensor operator()(const at::Tensor& x) const;

  struct Plan;

 private:
  std::shared_ptr<const Plan> plan_;
};

}  // namespace strata::trainer
