// SPDX-License-Identifier: MIT
#include "sharding/parameters/coded_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace strata::sharding {
namespace {

std::vector<FlatParameter> parameters_of(const std::vector<int64_t>& sizes) {
  std::vector<FlatParameter> parameters;
  for (const int64_t size : sizes) parameters.push_back({"p" + std::to_string(parameters.size()), {size}, true});
  return parameters;
}

// Plays the gather: each rank puts its pieces where the layout says, in its own row alone. Then all rows must have each
// parameter as a whole.
void expect_whole_parameters(const std::vector<int64_t>& sizes, const std::vector<bool>& is_coded, int64_t ranks) {
  const FlatLayout flat(parameters_of(sizes), ranks);
  const CodedLayout layout(flat, is_coded);
  const int64_t row = layout.row_elements();
  EXPECT_EQ(row % FlatLayout::kAlignment, 0);
  EXPECT_EQ(layout.rows(), ranks);
  std::vector<int64_t> rows(static_cast<size_t>(ranks * row), -1);  // the flat place of each element
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t shard_begin = flat.shard_begin(rank), shard_end = shard_begin + flat.shard_elements();
    for (size_t i = 0; i < flat.entries().size(); ++i) {
      const FlatLayout::Entry& entry = flat.entries()[i];
      EXPECT_EQ(layout.coded_index(i).has_value(), is_coded[i]);
      if (is_coded[i]) continue;
      EXPECT_EQ(layout.place_in_rows(i) % FlatLayout::kAlignment, 0);
      for (int64_t at = std::max(entry.offset, shard_begin); at < std::min(entry.offset + entry.elements, shard_end);
           ++at) {
        const int64_t place = layout.place_in_rows(i) + at - entry.offset;
        ASSERT_GE(place, rank * row) << i;
        ASSERT_LT(place, (rank + 1) * row) << i;
        ASSERT_EQ(rows[static_cast<size_t>(place)], -1) << "two elements in one place";
        rows[static_cast<size_t>(place)] = at;
      }
    }
  }
  int64_t most = 0;  // that a rank has
  for (int64_t rank = 0; rank < ranks; ++rank) {
    most = std::max<int64_t>(most, std::count_if(rows.begin() + rank * row, rows.begin() + (rank + 1) * row,
                                                 [](int64_t at) { return at >= 0; }));
  }
  EXPECT_LT(row - most, FlatLayout::kAlignment * std::ssize(sizes) + 1);
  EXPECT_EQ(layout.slot_elements(2), flat.elements() / 2 + ranks * row);
}

TEST(CodedLayout, EachParameterIsWholeInTheRows) {
  const std::vector<int64_t> sizes = {7, 300, 64, 1000, 129, 24, 24, 640, 1, 5000};
  for (const int64_t ranks : {2, 3, 4, 5, 8, 16, 64}) {
    for (unsigned coded = 0; coded < 1u << sizes.size(); coded += 3) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, coded " + std::to_string(coded));
      std::vector<bool> is_coded;
      for (size_t i = 0; i < sizes.size(); ++i) is_coded.push_back((coded >> i & 1) != 0);
      expect_whole_parameters(sizes, is_coded, ranks);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CodedLayout, ACommonBlockSendsHalfOfItsBytes) {
  const std::vector<int64_t> sizes = {768 * 2304, 768 * 768, 768 * 3072, 3072 * 768, 768, 768};
  for (const int64_t ranks : {2, 4, 8}) {
    const FlatLayout flat(parameters_of(sizes), ranks);
    const CodedLayout layout(flat, {true, true, true, true, false, false});
    EXPECT_EQ(layout.coded_entries(), 4);
    EXPECT_EQ(layout.coded_index(3), 3);
    EXPECT_EQ(layout.row_elements(), 2 * 768);  // the last rank has both norms
    EXPECT_EQ(layout.slot_elements(2), flat.elements() / 2 + ranks * 2 * 768);
  }
}

TEST(CodedLayout, AllParametersMayBeCoded) {
  const FlatLayout flat(parameters_of({100, 200}), 2);
  const CodedLayout layout(flat, {true, true});
  EXPECT_EQ(layout.row_elements(), 0);
  EXPECT_EQ(layout.slot_elements(4), flat.elements() / 4);
}

}  // namespace
}  // namespace strata::sharding
