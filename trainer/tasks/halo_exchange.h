// SPDX-License-Identifier: MIT
// Brings each rank the rows of the nodes that it needs and others have, and their gradients back.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "kernels/runtime/level.h"
#include "sharding/communication/communicator.h"
#include "trainer/data/graphs/graph_partition.h"

namespace strata::trainer {

class HaloExchange {
 public:
  // The communicator must outlive this and every backward.
  HaloExchange(const GraphPart& part, sharding::Communicator& world, kernels::Level level);

  // x [own nodes, D] -> [own nodes + halo, D]. Collective, and so is its backward, which adds what comes back in the
  // order of the ranks.
  at::Tensor operator()(const at::Tensor& x) const;

  struct Plan;

 private:
  std::shared_ptr<const Plan> plan_;
};

}  // namespace strata::trainer
