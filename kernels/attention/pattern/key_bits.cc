// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/key_bits.h"

#include <algorithm>
#include <bit>

namespace strata::kernels {
namespace {

constexpr uint64_t kEvery = ~uint64_t{0};

uint64_t stride_bits(int64_t step, int64_t span, int64_t query, int64_t first_key) {
  const int64_t begin = std::max(first_key, query - span + 1), end = std::min(first_key + kKeysOfBits, query + span);
  const int64_t remainder = ((begin - query) % step + step) % step;
  uint64_t bits = 0;
  for (int64_t key = remainder == 0 ? begin : begin + step - remainder; key < end; key += step) {
    bits |= uint64_t{1} << (key - first_key);
  }
  return bits;
}

uint64_t document_bits(int64_t query, int64_t first_key, std::span<const int32_t> document_of) {
  const int64_t last = std::min(first_key + kKeysOfBits, static_cast<int64_t>(document_of.size()));
  if (first_key >= last) return 0;
  const auto begin = document_of.begin();
  const auto [low, high] = std::equal_range(begin + first_key, begin + last, document_of[static_cast<size_t>(query)]);
  return bits_between(first_key, low - begin, high - begin);
}

}  // namespace

uint64_t bits_between(int64_t first_key, int64_t begin, int64_t end) {
  const int64_t low = std::max<int64_t>(begin - first_key, 0), high = std::min(end - first_key, kKeysOfBits);
  if (low >= high) return 0;
  return (kEvery >> (kKeysOfBits - (high - low))) << low;
}

uint64_t key_bits(const Instruction& instruction, int64_t query, int64_t first_key,
                  std::span<const int32_t> document_of) {
  const int64_t first = instruction.first, second = instruction.second;
  switch (instruction.operation) {
    case Operation::band:
      return bits_between(first_key, query - second, query - first + 1);
    case Operation::stride:
      return stride_bits(first, second, query, first_key);
    case Operation::prefix:
      return bits_between(first_key, 0, first);
    case Operation::global:
      return query < first ? kEvery : bits_between(first_key, 0, first);
    case Operation::blocks:
      return sees_block(std::bit_cast<uint32_t>(instruction.first), instruction.second,
                        static_cast<int32_t>(query / kBlockPositions),
                        static_cast<int32_t>(first_key / kBlockPositions))
                 ? kEvery
                 : 0;
    case Operation::documents:
      return document_bits(query, first_key, document_of);
    default:
      return 0;
  }
}

}  // namespace strata::kernels
