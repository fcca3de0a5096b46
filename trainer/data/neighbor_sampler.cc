// SPDX-License-Identifier: MIT
#include "trainer/data/neighbor_sampler.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/data/all_threads.h"
#include "trainer/data/permutation.h"

namespace strata::trainer {
namespace {

constexpr int64_t kFewestNodes = 256;  // of a thread: to start one takes 20 us, as long as to sample 200 nodes
constexpr int64_t kFewDrawn = 64;      // so many are compared with each other faster than permuted() finds one

// Different numbers from 0 to bound - 1; each set of `count` of them is as likely as any other.
void draw_different(uint64_t key, int64_t count, int64_t bound, int64_t* drawn) {
  if (count > kFewDrawn) {
    for (int64_t i = 0; i < count; ++i) drawn[i] = permuted(key, i, bound);
    return;
  }
  // Floyd's algorithm (Bentley and Floyd, 1987): what was drawn already is replaced by the largest number so far.
  for (int64_t i = 0; i < count; ++i) {
    const int64_t largest = bound - count + i;
    const auto number = static_cast<int64_t>(mix(key, static_cast<uint64_t>(i)) % static_cast<uint64_t>(largest + 1));
    drawn[i] = std::find(drawn, drawn + i, number) == drawn + i ? number : largest;
  }
}

// The numbers that nodes have in a neighborhood: in the order in which they were met.
class Numbering {
 public:
  explicit Numbering(int64_t nodes) : numbers_(static_cast<size_t>(nodes), -1) {}
  void add(int64_t node) {
    int64_t& number = numbers_[static_cast<size_t>(node)];
    if (number < 0) number = static_cast<int64_t>(met_.size());
    met_.push_back(node);
  }
  int64_t of(int64_t node) {
    if (numbers_[static_cast<size_t>(node)] < 0) add(node);
    return numbers_[static_cast<size_t>(node)];
  }
  const std::vector<int64_t>& met() const { return met_; }

 private:
  std::vector<int64_t> numbers_, met_;
};

}  // namespace

// The columns are nodes.
SparseRows NeighborSampler::some_of(const std::vector<int64_t>& targets, int64_t fan_out, uint64_t key) const {
  const int64_t* offset = integers(rows_.offsets);
  const int64_t* column = integers(rows_.columns);
  const float* value = rows_.values.defined() ? rows_.values.const_data_ptr<float>() : nullptr;
  const int64_t loops = rule_.has_self_loops ? 1 : 0;
  const auto count = static_cast<int64_t>(targets.size());
  const auto degree_of = [&](int64_t node) { return offset[node + 1] - offset[node] - loops; };

  SparseRows some{.offsets = at::empty({count + 1}, at::kLong), .columns = {}, .values = {}};
  int64_t* first = some.offsets.mutable_data_ptr<int64_t>();
  first[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    first[i + 1] = first[i] + loops + std::min(degree_of(targets[static_cast<size_t>(i)]), fan_out);
  }
  some.columns = at::empty({first[count]}, at::kLong);
  if (value != nullptr || rule_.scales_sums) some.values = at::empty({first[count]}, at::kFloat);
  int64_t* to = some.columns.mutable_data_ptr<int64_t>();
  float* value_to = some.values.defined() ? some.values.mutable_data_ptr<float>() : nullptr;

  const auto sample_row = [&](int64_t row) {
    const int64_t node = targets[static_cast<size_t>(row)], degree = degree_of(node);
    const int64_t sampled = first[row + 1] - first[row] - loops;
    const double scale =
        rule_.scales_sums && sampled > 0 ? static_cast<double>(degree) / static_cast<double>(sampled) : 1;
    int64_t* const drawn = to + first[row] + loops;
    if (sampled < degree) {
      draw_different(mix(key, static_cast<uint64_t>(node)), sampled, degree, drawn);
    } else {
      std::iota(drawn, drawn + sampled, 0);
    }
    for (int64_t i = 0; i < loops + sampled; ++i) {
      const int64_t place = offset[node] + (i < loops ? i : loops + drawn[i - loops]);
      to[first[row] + i] = column[place];
      if (value_to == nullptr) continue;
      value_to[first[row] + i] = (value != nullptr ? value[place] : 1) * static_cast<float>(i < loops ? 1 : scale);
    }
  };
  on_all_threads(count, kFewestNodes, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) sample_row(row);
  });
  return some;
}

SampledNeighborhood NeighborSampler::sample(const Tensor& seeds, uint64_t key) const {
  Numbering numbering(rows_.offsets.size(0) - 1);
  for (int64_t i = 0; i < seeds.numel(); ++i) numbering.add(integers(seeds)[i]);
  SampledNeighborhood result;
  for (size_t hop = 0; hop < rule_.fan_outs.size(); ++hop) {
    SampledLayer layer{.rows = some_of(numbering.met(), rule_.fan_outs[hop], mix(key, hop))};
    int64_t* column = layer.rows.columns.mutable_data_ptr<int64_t>();
    for (int64_t e = 0; e < layer.rows.columns.numel(); ++e) column[e] = numbering.of(column[e]);
    layer.sources = static_cast<int64_t>(numbering.met().size());
    result.layers.push_back(std::move(layer));
  }
  std::reverse(result.layers.begin(), result.layers.end());
  result.nodes = at::empty({static_cast<int64_t>(numbering.met().size())}, at::kLong);
  std::copy(numbering.met().begin(), numbering.met().end(), result.nodes.mutable_data_ptr<int64_t>());
  return result;
}

}  // namespace strata::trainer
