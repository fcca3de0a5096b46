// SPDX-License-Identifier: MIT
// The gathered form of a parameter group of which some parameters travel as codes of 8 bits: the codes in the flat
// layout, followed by the values of the other parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sharding/parameters/flat_layout.h"

namespace strata::sharding {

// In float32 numbers: scales lie 16 bytes apart, because cuBLASLt takes no other addresses of a scale.
inline constexpr int64_t kScaleStride = 4;

// Codes are gathered as one byte for each element of the flat layout, so that the codes of a parameter are contiguous.
// The other parameters are mostly small. Each rank sends its pieces of them in a row, and all rows are as long as the
// longest. Pieces are placed in the rows so that a parameter is contiguous even if it spans several rows.
class CodedLayout {
 public:
  // `is_coded` has a value for each entry of the flat layout.
  CodedLayout(const FlatLayout& flat, const std::vector<bool>& is_coded);

  // The place of an entry among those that are coded; nothing if it is not.
  std::optional<int64_t> coded_index(size_t entry) const { return coded_index_[entry]; }
  int64_t coded_entries() const { return coded_entries_; }

  // The elements of one row, a multiple of FlatLayout::kAlignment. 0: all parameters are coded.
  int64_t row_elements() const { return row_elements_; }
  int64_t rows() const { return rows_; }
  // The first element, in all rows, of an entry that is not coded.
  int64_t place_in_rows(size_t entry) const { return place_in_rows_[entry]; }

  // The size of a slot, in elements of `element_bytes` each, in which the rows are.
  int64_t slot_elements(int64_t element_bytes) const { return flat_elements_ / element_bytes + rows_ * row_elements_; }

 private:
  int64_t flat_elements_, rows_, row_elements_ = 0, coded_entries_ = 0;
  std::vector<std::optional<int64_t>> coded_index_;
  std::vector<int64_t> place_in_rows_;
};

}  // namespace strata::sharding
