// SPDX-License-Identifier: MIT
// element_hash: a random 32-bit number for each element of a matrix, computed from a counter and never stored. It does
// not depend on the machine, nor on how rows are distributed over calls or ranks. `mix` is the integer hash lowbias32
// (Wellons 2018).
//   mix(h) = h ^= h >> 16; h *= 0x7feb352d; h ^= h >> 15; h *= 0x846ca68b; h ^= h >> 16     (modulo 2^32)
//   row_hash = mix(row >> 32 ^ mix(row & m ^ mix(site ^ mix(key >> 32 ^ mix(key & m ^ 0x9e3779b9)))))
//   hash = mix(row_hash ^ mix(column + 0x9e3779b9)), with m = 2^32 - 1
// Key, site and row enter a hash as the 32 bits of row_hash. `mix` is one-to-one, so fewer than 2^32 rows of one site
// have different hashes. But two sites whose hashes differ in bits of the row's number alone have the same hashes, in
// another order of rows. With 65,536 rows in a step this happens to a pair of sites under one of 65,536 keys. With 24
// sites it happens to some pair in 0.4 % of the steps. The counters of Philox would never meet.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::kernels {

// key int64 [1] -> int64 [rows, columns] of numbers in [0, 2^32), on the device of key. The global number of the first
// row is first_row; `site` identifies the use.
at::Tensor element_hash(const at::Tensor& key, int64_t site, int64_t first_row, int64_t rows, int64_t columns);

}  // namespace strata::kernels
