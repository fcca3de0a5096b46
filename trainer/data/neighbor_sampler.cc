// SPDX-License-Identifier: MIT
#include "trainer/data/neighbor_sampler.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "trainer/data/permutation.h"

namespace strata::trainer {
namespace {

const int64_t* integers(const Tensor& tensor) { return tensor.const_data_ptr<int64_t>(); }

template <class T>
Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  const Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<T>());
  return tensor;
}

// body(begin, end) on all threads. at::parallel_for runs on one thread in code that is not compiled with OpenMP.
template <class Body>
void for_ranges(int64_t count, const Body& body) {
  constexpr int64_t kFewest = 4096;  // nodes; to start a thread takes 20 us
  const int64_t threads = std::clamp<int64_t>(count / kFewest, 1, at::get_num_threads());
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back(body, count * i / threads, count * (i + 1) / threads);
  body(0, count / threads);
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

SampledNeighborhood NeighborSampler::sample(const Tensor& seeds, uint64_t key) const {
  const int64_t* offset = integers(rows_.offsets);
  const int64_t* column = integers(rows_.columns);
  const float* value = rows_.values.defined() ? rows_.values.const_data_ptr<float>() : nullptr;
  const int64_t loops = rule_.has_self_loops ? 1 : 0;
  Numbering numbering(rows_.offsets.size(0) - 1);
  for (int64_t i = 0; i < seeds.numel(); ++i) numbering.add(integers(seeds)[i]);

  SampledNeighborhood result;
  for (size_t hop = 0; hop < rule_.fan_outs.size(); ++hop) {
    const std::vector<int64_t> targets = numbering.met();
    const auto count = static_cast<int64_t>(targets.size());
    const auto degree_of = [&](int64_t node) { return offset[node + 1] - offset[node] - loops; };
    std::vector<int64_t> offsets(targets.size() + 1);
    for (size_t i = 0; i < targets.size(); ++i) {
      offsets[i + 1] = offsets[i] + loops + std::min(degree_of(targets[i]), rule_.fan_outs[hop]);
    }
    std::vector<int64_t> columns(static_cast<size_t>(offsets.back()));
    std::vector<float> values(value != nullptr || rule_.scales_sums ? columns.size() : 0);
    for_ranges(count, [&](int64_t begin, int64_t end) {
      for (int64_t target = begin; target < end; ++target) {
        const int64_t node = targets[static_cast<size_t>(target)], degree = degree_of(node);
        const int64_t first = offsets[static_cast<size_t>(target)];
        const int64_t sampled = offsets[static_cast<size_t>(target) + 1] - first - loops;
        const uint64_t node_key = mix(mix(key, hop), static_cast<uint64_t>(node));
        const float scale = rule_.scales_sums && sampled > 0
                                ? static_cast<float>(static_cast<double>(degree) / static_cast<double>(sampled))
                                : 1.0f;
        for (int64_t i = 0; i < loops + sampled; ++i) {
          int64_t place = offset[node] + i;
          if (i >= loops && sampled < degree) place = offset[node] + loops + permuted(node_key, i - loops, degree);
          columns[static_cast<size_t>(first + i)] = column[place];
          if (!values.empty()) {
            values[static_cast<size_t>(first + i)] = (value != nullptr ? value[place] : 1.0f) * (i < loops ? 1 : scale);
          }
        }
      }
    });
    for (int64_t& node : columns) node = numbering.of(node);
    SampledLayer layer{.rows = {tensor_of(offsets, at::kLong), tensor_of(columns, at::kLong), {}},
                       .sources = static_cast<int64_t>(numbering.met().size())};
    if (!values.empty()) layer.rows.values = tensor_of(values, at::kFloat);
    result.layers.push_back(std::move(layer));
  }
  std::reverse(result.layers.begin(), result.layers.end());
  result.nodes = tensor_of(numbering.met(), at::kLong);
  return result;
}

}  // namespace strata::trainer
