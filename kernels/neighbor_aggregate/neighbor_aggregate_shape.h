// SPDX-License-Identifier: MIT
// NeighborAggregateShape and NeighborAttentionShape: the sizes of neighbor_aggregate and neighbor_attention.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/neighbor_aggregate/reduction.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

// An edge takes 4 bytes for its neighbor, a target 8 for the end of its edges.
inline double graph_bytes(int64_t targets, int64_t edges) { return 4 * double(edges) + 8 * double(targets); }

struct NeighborAggregateShape {
  int64_t targets, sources, width, edges;
  Reduction reduction = Reduction::sum;
  bool weighted = false;  // with edge weights

  bool operator==(const NeighborAggregateShape&) const = default;
  std::string_view op() const { return "neighbor_aggregate"; }
  std::string text() const;
  // Every row of x counts once, as if all of x stayed in the cache. An edge takes 4 bytes for its weight. max stores
  // the chosen edge in 4 bytes.
  Work forward_work(double element_bytes) const {
    const double rows = double(targets) + double(sources);
    const double taken = reduction == Reduction::max ? 4 * double(targets) * double(width) : 0;
    return {
        rows * double(width) * element_bytes + graph_bytes(targets, edges) + (weighted ? 4 * double(edges) : 0) + taken,
        2 * double(edges) * double(width)};
  }
  Work backward_work(double element_bytes) const { return forward_work(element_bytes); }
};

struct NeighborAttentionShape {
  int64_t targets, sources, heads, head_width, edges;

  bool operator==(const NeighborAttentionShape&) const = default;
  std::string_view op() const { return "neighbor_attention"; }
  std::string_view key() const { return "neighbor_aggregate"; }
  std::string text() const;
  Work forward_work(double element_bytes) const {
    return {matrices(element_bytes) + graph_bytes(targets, edges) + scores(), sum()};
  }
  Work backward_work(double element_bytes) const {
    return {2 * matrices(element_bytes) + graph_bytes(targets, edges) + 2 * scores(), 2 * sum()};
  }

 private:
  double row() const { return double(heads) * double(head_width); }
  double matrices(double element_bytes) const { return (double(targets) + double(sources)) * row() * element_bytes; }
  // Each head has two scores and a logsumexp in fp32.
  double scores() const { return (2 * double(targets) + double(sources)) * double(heads) * kStatisticBytes; }
  double sum() const { return 2 * double(edges) * row(); }
};

}  // namespace strata::kernels
