// SPDX-License-Identifier: MIT
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"

namespace strata::kernels {

std::string NeighborAggregateShape::text() const {
  return sizes_text({targets, width}) + (sources != targets ? " from " + std::to_string(sources) : "") + ", " +
         std::to_string(edges) + (weighted ? " weighted" : "") + " edges " + std::string(name(reduction));
}

std::string NeighborAttentionShape::text() const {
  return sizes_text({targets, heads, head_width}) + (sources != targets ? " from " + std::to_string(sources) : "") +
         ", " + std::to_string(edges) + " edges";
}

}  // namespace strata::kernels
