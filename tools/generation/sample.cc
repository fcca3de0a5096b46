// SPDX-License-Identifier: MIT
#include "tools/generation/sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "base/draws.h"
#include "base/permutation.h"
#include "tools/generation/likeliest.h"
#include "tools/generation/sample_by_loops.h"

namespace strata::generation {

namespace {

// NaN is the largest of all. The difference is NaN unless the largest one is finite.
Tensor marked(const Tensor& ids, const Tensor& largest) {
  return ids.masked_fill(largest.sub(largest).ne(0), kNoToken);
}

}  // namespace

Tensor sample(const Tensor& logits, const Sampling& sampling, int64_t number) {
  const double draw = Draws(mix(sampling.seed, static_cast<uint64_t>(number))).uniform();
  if (logits.is_cpu()) return sample_by_loops(logits, sampling, draw);
  if (sampling.temperature == 0 && has_likeliest_kernel(logits)) return likeliest_by_kernel(logits);
  return sample_by_operators(logits, sampling, draw);
}

Tensor sample_by_operators(const Tensor& logits, const Sampling& sampling, double draw) {
  if (sampling.temperature == 0) {
    const auto [largest, ids] = logits.max(1);
    return marked(ids, largest);
  }
  const int64_t candidates = sampling.top_k > 0 ? std::min(sampling.top_k, logits.size(1)) : logits.size(1);
  const auto [values, ids] = at::topk(logits, candidates, /*dim=*/1);  // descending
  const Tensor shares = values.to(at::kDouble).div_(sampling.temperature).softmax(1);
  const Tensor sums = shares.cumsum(1);
  // A candidate stays if those before it sum to less than top_p. So the first one always stays.
  const Tensor stays = (sums - shares).lt(sampling.top_p);
  const Tensor total = sums.masked_fill(stays.logical_not(), 0).amax(1, /*keepdim=*/true);
  const Tensor place = sums.le(total * draw).sum(1, /*keepdim=*/true);
  // The product may round to the total. Of logits that are not finite, none stays.
  const Tensor last = (stays.sum(1, /*keepdim=*/true) - 1).clamp_min_(0);
  return marked(ids.gather(1, at::minimum(place, last)).squeeze(1), values.select(1, 0));
}

}  // namespace strata::generation
