// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern_mask.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/remainder.h>
#include <c10/util/Exception.h>

#include <bit>

namespace strata::kernels {
namespace {

using at::Tensor;

constexpr int64_t kLow32 = 0xffffffff;

// block_mixed of block_hash.h on numbers below 2^32 in int64. The second factor is 0x846ca68b - 2^32, so that no
// product leaves 63 bits.
Tensor mixed(const Tensor& x) {
  const Tensor y = ((x ^ x.bitwise_right_shift(16)) * 0x7feb352d) & kLow32;
  const Tensor z = ((y ^ y.bitwise_right_shift(15)) * (0x846ca68bL - 0x100000000L)) & kLow32;
  return z ^ z.bitwise_right_shift(16);
}

// sees_block of block_hash.h. Both are blocks in int64.
Tensor seen_blocks(const Instruction& instruction, const Tensor& query_block, const Tensor& key_block) {
  const int64_t key = std::bit_cast<uint32_t>(instruction.first);
  const Tensor row = mixed((query_block * 2 + key) & kLow32), column = mixed((key_block * 2 + (key + 1)) & kLow32);
  return mixed(row ^ column).bitwise_right_shift(32 - kBlockHashBits).lt(instruction.second) |
         query_block.eq(key_block);
}

// One value for each pair of blocks, which is repeated for its pairs of positions.
Tensor blocks_mask(const Instruction& instruction, const MaskedRows& rows, const at::TensorOptions& options) {
  const int64_t first_block = rows.first_query / kBlockPositions, end_query = rows.first_query + rows.queries;
  const auto blocks_before = [](int64_t position) { return (position + kBlockPositions - 1) / kBlockPositions; };
  const Tensor query_block = at::arange(first_block, blocks_before(end_query), options).unsqueeze(1);
  const Tensor seen = seen_blocks(instruction, query_block, at::arange(blocks_before(rows.keys), options));
  const auto repeated = [&](const Tensor& mask, int64_t dimension, int64_t first, int64_t count) {
    return mask.repeat_interleave(kBlockPositions, dimension).narrow(dimension, first, count);
  };
  return repeated(repeated(seen, 0, rows.first_query % kBlockPositions, rows.queries), 1, 0, rows.keys);
}

// The words that read nothing but the two positions.
Tensor word_mask(const Instruction& instruction, const Tensor& query, const Tensor& key) {
  const int64_t first = instruction.first, second = instruction.second;
  switch (instruction.operation) {
    case Operation::band:  // the sums are vectors
      return key.le(query - first) & key.ge(query - second);
    case Operation::stride: {
      const Tensor distance = at::abs(query - key);
      return distance.remainder(first).eq(0) & distance.lt(second);
    }
    case Operation::prefix:
      return key.lt(first).expand(at::infer_size(query.sizes(), key.sizes()));
    default:
      return key.lt(first) | query.lt(first);
  }
}

}  // namespace

Tensor documents_of(const Tensor& document_offsets, int64_t batch, int64_t positions) {
  const Tensor places = at::arange(batch * positions, document_offsets.options());
  return at::bucketize(places, document_offsets.slice(0, 1), /*out_int32=*/true, /*right=*/true)
      .view({batch, positions});
}

Tensor pattern_mask(const Program& program, const MaskedRows& rows, const Tensor& document_BT, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const Tensor key = at::arange(rows.keys, options);
  const Tensor query = at::arange(rows.first_query, rows.first_query + rows.queries, options).unsqueeze(1);
  const Tensor mask = evaluate(program, [&](const Instruction& instruction, int32_t) -> Tensor {
    if (instruction.operation == Operation::blocks) return blocks_mask(instruction, rows, options);
    if (instruction.operation != Operation::documents) return word_mask(instruction, query, key);
    const Tensor document_BQ = document_BT.narrow(1, rows.first_query, rows.queries);
    return document_BQ.unsqueeze(2).eq(document_BT.unsqueeze(1)).unsqueeze(1);
  });
  return mask.dim() == 2 ? mask.unsqueeze(0).unsqueeze(0) : mask;
}

Tensor pairs_mask(const Program& program, const Tensor& query, const Tensor& key) {
  TORCH_CHECK_VALUE(!program.has(Operation::documents), "pairs_mask: positions are those of one document");
  return evaluate(program, [&](const Instruction& instruction, int32_t) -> Tensor {
    if (instruction.operation != Operation::blocks) return word_mask(instruction, query, key);
    return seen_blocks(instruction, query.floor_divide(kBlockPositions), key.floor_divide(kBlockPositions));
  });
}

}  // namespace strata::kernels
