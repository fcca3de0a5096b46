// SPDX-License-Identifier: MIT
#include "kernels/dropout/dropout_loops.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/runtime/vectorized.h"

namespace strata::kernels {
namespace {

constexpr uint32_t kGolden = 0x9e3779b9;

constexpr uint32_t mix(uint32_t hash) {
  hash = (hash ^ hash >> 16) * 0x7feb352d;
  hash = (hash ^ hash >> 15) * 0x846ca68b;
  return hash ^ hash >> 16;
}

constexpr uint32_t mix(uint64_t number, uint32_t hash) {
  return mix(static_cast<uint32_t>(number >> 32) ^ mix(static_cast<uint32_t>(number) ^ hash));
}

// Sets kept[c] to 1 if the element is kept. From AVX2 on processors multiply eight integers at once.
STRATA_VECTORIZED void find_kept(uint32_t row_hash, const uint32_t* column_hash, uint32_t threshold, int64_t columns,
                                 uint32_t* kept) {
  for (int64_t c = 0; c < columns; ++c) kept[c] = mix(row_hash ^ column_hash[c]) >= threshold ? 1 : 0;
}

// Calls body(first row, last row) on all threads. at::parallel_for would use one thread, because this code is not
// compiled with OpenMP.
template <class Body>
void for_each_row(int64_t rows, int64_t columns, const Body& body) {
  constexpr int64_t kFewest = 1 << 16;  // elements, about 100 us; starting a thread takes 20 us
  const int64_t threads = std::clamp<int64_t>(rows * columns / kFewest, 1, at::get_num_threads());
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back(body, rows * i / threads, rows * (i + 1) / threads);
  body(0, rows / threads);
}

}  // namespace

Tensor dropout_by_loops(const Tensor& given, const DropoutOp::MaskSeed& mask) {
  const Tensor x = given.contiguous(), y = at::empty_like(x);
  if (x.is_meta()) return y;
  const int64_t columns = x.size(-1), rows = x.numel() / columns;
  const auto threshold = static_cast<uint32_t>(mask.probability * 4294967296.0);
  const uint32_t site_hash = mix(static_cast<uint32_t>(mask.site) ^
                                 mix(static_cast<uint64_t>(mask.key.const_data_ptr<int64_t>()[0]), kGolden));
  std::vector<uint32_t> column_hash(static_cast<size_t>(columns));
  for (size_t c = 0; c < column_hash.size(); ++c) column_hash[c] = mix(static_cast<uint32_t>(c) + kGolden);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const auto scale = static_cast<Wide>(1.0 / (1.0 - mask.probability));
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    scalar_t* to = y.mutable_data_ptr<scalar_t>();
    for_each_row(rows, columns, [&](int64_t first, int64_t last) {
      std::vector<uint32_t> kept(static_cast<size_t>(columns));
      for (int64_t row = first; row < last; ++row) {
        find_kept(mix(static_cast<uint64_t>(mask.first_row + row), site_hash), column_hash.data(), threshold, columns,
                  kept.data());
        const scalar_t* x_row = from + row * columns;
        scalar_t* y_row = to + row * columns;
        for (int64_t c = 0; c < columns; ++c) {
          y_row[c] = kept[static_cast<size_t>(c)] != 0 ? static_cast<scalar_t>(static_cast<Wide>(x_row[c]) * scale)
                                                       : scalar_t(0);
        }
      }
    });
  });
  return y;
}

}  // namespace strata::kernels
