// SPDX-License-Identifier: MIT
#include "tools/generation/sample_by_loops.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

namespace strata::generation {
namespace {

using Logits = std::span<const float>;

// The first of the largest logits; kNoToken if that is infinite, or if one is NaN.
int64_t likeliest(Logits logits) {
  size_t best = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id])) return kNoToken;
    if (logits[id] > logits[best]) best = id;
  }
  return std::isfinite(logits[best]) ? static_cast<int64_t>(best) : kNoToken;
}

// The ids of the `count` largest logits, in descending order. Of equal ones, the lower id is first.
std::vector<int64_t> largest(Logits logits, size_t count) {
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto is_before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), is_before);
  ids.erase(end, ids.end());
  return ids;
}

int64_t sample_row(Logits logits, const Sampling& sampling, double draw) {
  const int64_t best = likeliest(logits);
  if (sampling.temperature == 0 || best == kNoToken) return best;
  const std::vector<int64_t> ids =
      largest(logits, sampling.top_k > 0 ? static_cast<size_t>(sampling.top_k) : logits.size());
  const auto logit_of = [&](int64_t id) { return static_cast<double>(logits[static_cast<size_t>(id)]); };
  std::vector<double> shares;
  for (const int64_t id : ids) shares.push_back(std::exp((logit_of(id) - logit_of(best)) / sampling.temperature));
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  // A candidate stays if those before it sum to less than top_p. So the first one always stays.
  double total = 0;
  size_t kept = 0;
  while (kept < shares.size() && total < sampling.top_p * all) total += shares[kept++];
  size_t place = 0;
  // The product may round to the total.
  for (double sum = shares[0]; place + 1 < kept && sum <= total * draw;) sum += shares[++place];
  return ids[place];
}

}  // namespace

Tensor sample_by_loops(const Tensor& logits, const Sampling& sampling, double draw) {
  const Tensor values = logits.to(at::kFloat).contiguous();
  const auto rows = static_cast<size_t>(values.size(0)), width = static_cast<size_t>(values.size(1));
  const Tensor ids = at::empty({values.size(0)}, at::kLong);
  for (size_t row = 0; row < rows; ++row) {
    ids.mutable_data_ptr<int64_t>()[row] =
        sample_row({values.const_data_ptr<float>() + row * width, width}, sampling, draw);
  }
  return ids;
}

}  // namespace strata::generation
