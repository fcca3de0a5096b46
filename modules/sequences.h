// SPDX-License-Identifier: MIT
// Facts about the tokens of a micro-batch that are not whole sequences: packed documents, which attention keeps apart,
// and the part of each sequence that a rank computes. Tasks put them into the context of a step.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "modules/config/sequence_chunks.h"

namespace strata::modules {

using at::Tensor;

struct Documents {
  Tensor offsets;    // see kernels::AttentionMask
  Tensor positions;  // int64 [B, T]: of each token in its document; undefined where only attention reads the documents
};

// The tokens of each sequence of T positions that this rank computes, if n ranks share each sequence: two
// SequenceChunks.
class SequencePart {
 public:
  // own [B, T / n, W], rows of this rank's tokens, in the order of positions -> [B, T, W], the rows of all ranks in the
  // order of positions, in a storage of its own. This is a collective, and so is its backward, which sums gradients
  // over ranks.
  using Gather = std::function<Tensor(const Tensor& own)>;

  // 2 n must divide T.
  SequencePart(int64_t rank, int64_t ranks, int64_t sequence, Gather gather)
      : rank_(rank), chunks_{ranks, sequence}, gather_(std::move(gather)) {
    TORCH_CHECK_VALUE(sequence % (2 * ranks) == 0, "a sequence of ", sequence, " tokens has no ", 2 * ranks,
                      " equal chunks for ", ranks, " ranks");
  }

  int64_t sequence() const { return chunks_.sequence; }  // T
  int64_t chunk() const { return chunks_.length(); }
  // Where the two chunks of this rank begin.
  std::array<int64_t, 2> starts() const { return chunks_.starts(rank_); }
  // Returns int64 [T / n]: the positions of this rank's tokens.
  Tensor positions(at::Device device) const {
    const auto options = at::TensorOptions(at::kLong).device(device);
    const auto [first, second] = starts();
    return at::cat({at::arange(first, first + chunk(), options), at::arange(second, second + chunk(), options)});
  }

  Tensor gather(const Tensor& own) const { return gather_(own); }

 private:
  int64_t rank_;
  SequenceChunks chunks_;
  Gather gather_;
};

}  // namespace strata::modules
