// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/neighbor_sampler.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "base/all_threads.h"
#include "base/permutation.h"

namespace strata::trainer {
namespace {

constexpr int64_t kNodesPerThread = 256;  // fewest nodes of a thread: starting one takes 20 us, the time of 200 nodes
constexpr int64_t kRowsAtOnce = 64;       // rows whose edges stay in the L1 cache
constexpr int64_t kAhead = 16;            // distance in edges of the prefetch of numbers
constexpr int64_t kFewDrawn = 64;         // up to here, comparing all pairs is faster than one permuted()

// Returns a number in [0, bound), by a multiplication instead of a division (Lemire: Fast Random Integer Generation in
// an Interval, 2019). Its distribution differs from uniform by less than bound / 2^64.
int64_t below(uint64_t random, int64_t bound) {
  return static_cast<int64_t>((static_cast<unsigned __int128>(random) * static_cast<uint64_t>(bound)) >> 64);
}

// Draws `count` different numbers in [0, bound); all sets of `count` numbers are equally likely.
void draw_different(uint64_t key, int64_t count, int64_t bound, int64_t* drawn) {
  if (count > kFewDrawn) {
    for (int64_t i = 0; i < count; ++i) drawn[i] = permuted(key, i, bound);
    return;
  }
  // Floyd's algorithm (Bentley and Floyd, 1987): a number that was drawn already is replaced by the largest candidate.
  for (int64_t i = 0; i < count; ++i) {
    const int64_t largest = bound - count + i;
    const int64_t number = below(mix(key, static_cast<uint64_t>(i)), largest + 1);
    drawn[i] = std::find(drawn, drawn + i, number) == drawn + i ? number : largest;
  }
}

}  // namespace

// Returns sampled rows, whose columns are node numbers.
SparseRows NeighborSampler::sampled_rows(const std::vector<int64_t>& targets, int64_t fan_out, uint64_t key) const {
  const int64_t* offset = integers(rows_.offsets);
  const int64_t* column = integers(rows_.columns);
  const float* value = rows_.values.defined() ? rows_.values.const_data_ptr<float>() : nullptr;
  const int64_t loops = rule_.has_self_loops ? 1 : 0;
  const auto count = static_cast<int64_t>(targets.size());
  struct Row {
    int64_t node, begin, degree;
  };
  std::vector<Row> rows;  // read once, because they are at random places in memory
  rows.reserve(targets.size());
  for (const int64_t node : targets) rows.push_back({node, offset[node], offset[node + 1] - offset[node] - loops});

  SparseRows result{.offsets = at::empty({count + 1}, at::kLong), .columns = {}, .values = {}};
  int64_t* first = result.offsets.mutable_data_ptr<int64_t>();
  first[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    first[i + 1] = first[i] + loops + std::min(rows[static_cast<size_t>(i)].degree, fan_out);
  }
  result.columns = at::empty({first[count]}, at::kLong);
  if (value != nullptr || rule_.scales_sums) result.values = at::empty({first[count]}, at::kFloat);
  int64_t* to = result.columns.mutable_data_ptr<int64_t>();
  float* value_to = result.values.defined() ? result.values.mutable_data_ptr<float>() : nullptr;

  // First writes the places of the neighbors, then reads the neighbors there: these loads depend on nothing but memory.
  const auto sample_rows = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto& [node, begin_of_row, degree] = rows[static_cast<size_t>(row)];
      const int64_t sampled = first[row + 1] - first[row] - loops;
      int64_t* const place = to + first[row];
      if (loops > 0) place[0] = begin_of_row;
      int64_t* const drawn = place + loops;
      if (sampled < degree) {
        draw_different(mix(key, static_cast<uint64_t>(node)), sampled, degree, drawn);
      } else {
        std::iota(drawn, drawn + sampled, 0);
      }
      for (int64_t i = 0; i < sampled; ++i) drawn[i] += begin_of_row + loops;
      if (value_to == nullptr) continue;
      const double scale =
          rule_.scales_sums && sampled > 0 ? static_cast<double>(degree) / static_cast<double>(sampled) : 1;
      for (int64_t i = 0; i < loops + sampled; ++i) {
        value_to[first[row] + i] = (value != nullptr ? value[place[i]] : 1) * static_cast<float>(i < loops ? 1 : scale);
      }
    }
    for (int64_t e = first[begin]; e < first[end]; ++e) to[e] = column[to[e]];
  };
  on_all_threads(count, kNodesPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += kRowsAtOnce) sample_rows(row, std::min(row + kRowsAtOnce, end));
  });
  return result;
}

SampledNeighborhood NeighborSampler::sample(const Tensor& seeds, uint64_t key) const {
  std::unique_ptr<Numbering> numbering = take_numbering();
  for (int64_t i = 0; i < seeds.numel(); ++i) numbering->add(integers(seeds)[i]);
  SampledNeighborhood result;
  for (size_t hop = 0; hop < rule_.fan_outs.size(); ++hop) {
    SampledLayer layer{.rows = sampled_rows(numbering->met(), rule_.fan_outs[hop], mix(key, hop))};
    int64_t* column = layer.rows.columns.mutable_data_ptr<int64_t>();
    const int64_t edges = layer.rows.columns.numel();
    for (int64_t e = 0; e < edges; ++e) {
      numbering->expect(column[std::min(e + kAhead, edges - 1)]);
      column[e] = numbering->of(column[e]);
    }
    layer.sources = static_cast<int64_t>(numbering->met().size());
    result.layers.push_back(std::move(layer));
  }
  std::reverse(result.layers.begin(), result.layers.end());
  result.nodes = at::empty({static_cast<int64_t>(numbering->met().size())}, at::kLong);
  std::copy(numbering->met().begin(), numbering->met().end(), result.nodes.mutable_data_ptr<int64_t>());
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(numbering));
  return result;
}

std::unique_ptr<Numbering> NeighborSampler::take_numbering() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Numbering>(rows_.offsets.size(0) - 1);
  std::unique_ptr<Numbering> numbering = std::move(idle_.back());
  idle_.pop_back();
  numbering->clear();
  return numbering;
}

}  // namespace strata::trainer
