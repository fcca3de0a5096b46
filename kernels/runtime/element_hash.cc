// SPDX-License-Identifier: MIT
// R rows, C columns
#include "kernels/runtime/element_hash.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>

namespace strata::kernels {
namespace {

using at::Tensor;

constexpr int64_t kLow32Bits = 0xffffffff;
constexpr int64_t kGolden = 0x9e3779b9;

// Works in place on int64 tensors that hold 32-bit numbers. The second constant is negative (0x846ca68b - 2^32), so
// that the product stays above -2^63; it is the same modulo 2^32.
Tensor mix(Tensor hash) {
  hash.bitwise_xor_(at::bitwise_right_shift(hash, 16)).mul_(0x7feb352d).bitwise_and_(kLow32Bits);
  hash.bitwise_xor_(at::bitwise_right_shift(hash, 15)).mul_(0x846ca68b - (kLow32Bits + 1)).bitwise_and_(kLow32Bits);
  return hash.bitwise_xor_(at::bitwise_right_shift(hash, 16));
}

Tensor low(const Tensor& number) { return number.bitwise_and(kLow32Bits); }
Tensor high(const Tensor& number) { return at::bitwise_right_shift(number, 32).bitwise_and_(kLow32Bits); }

}  // namespace

Tensor element_hash(const Tensor& key, int64_t site, int64_t first_row, int64_t rows, int64_t columns) {
  const auto integers = key.options();
  const Tensor row = at::arange(first_row, first_row + rows, integers);
  Tensor hash = mix(low(key).bitwise_xor_(kGolden));
  hash = mix(high(key).bitwise_xor_(hash));
  hash = mix(hash.bitwise_xor_(site & kLow32Bits));
  const Tensor row_hash_R = mix(high(row).bitwise_xor_(mix(low(row).bitwise_xor_(hash))));
  const Tensor column_hash_C = mix(at::arange(kGolden, kGolden + columns, integers).bitwise_and_(kLow32Bits));
  return mix(at::bitwise_xor(row_hash_R.unsqueeze(1), column_hash_C));
}

}  // namespace strata::kernels
