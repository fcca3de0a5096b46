// SPDX-License-Identifier: MIT
#include "tools/generation/sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "base/draws.h"
#include "base/permutation.h"

namespace strata::generation {

Tensor sample(const Tensor& logits, const Sampling& sampling, int64_t number) {
  if (sampling.temperature == 0) return logits.argmax(1);
  const int64_t candidates = sampling.top_k > 0 ? std::min(sampling.top_k, logits.size(1)) : logits.size(1);
  const auto [values, ids] = at::topk(logits, candidates, /*dim=*/1);  // descending
  const Tensor shares = values.to(at::kDouble).div_(sampling.temperature).softmax(1);
  const Tensor sums = shares.cumsum(1);
  // A candidate stays if those before it sum to less than top_p. So the first one always stays.
  const Tensor stays = (sums - shares).lt(sampling.top_p);
  const Tensor total = sums.masked_fill(stays.logical_not(), 0).amax(1, /*keepdim=*/true);
  const double draw = Draws(mix(sampling.seed, static_cast<uint64_t>(number))).uniform();
  const Tensor place = sums.le(total * draw).sum(1, /*keepdim=*/true);
  // The product may round to the total.
  return ids.gather(1, at::minimum(place, stays.sum(1, /*keepdim=*/true) - 1)).squeeze(1);
}

}  // namespace strata::generation
