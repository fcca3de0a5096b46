// SPDX-License-Identifier: MIT
#include "base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>

namespace strata {
namespace {

TEST(Digest, Sha256OfKnownTexts) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  const std::string thousand(1000, 'a');
  for (int i = 0; i < 1000; ++i) hash.update(thousand.data(), thousand.size());
  EXPECT_EQ(hash.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

std::vector<float> some_values(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

TEST(Digest, AnySplitGivesTheSameSum) {
  const std::vector<float> values = some_values(1000);
  const ContentSum whole = sum_of_piece(values.data(), 1000, 0);
  for (const int ranks : {2, 3, 4, 7, 1000}) {
    ContentSum sum;
    for (int rank = ranks - 1; rank >= 0; --rank) {
      const int64_t begin = 1000 * rank / ranks, end = 1000 * (rank + 1) / ranks;
      sum += sum_of_piece(values.data() + begin, end - begin, begin);
    }
    EXPECT_EQ(sum, whole) << ranks << " ranks";
  }
  EXPECT_EQ(sum_of_piece(values.data(), 0, 5), ContentSum());
}

TEST(Digest, EveryBitAndEveryPlaceCounts) {
  std::vector<float> values = some_values(64);
  const ContentSum whole = sum_of_piece(values.data(), 64, 0);
  const auto both_halves_differ = [&](const ContentSum& other) {
    return other.low != whole.low && other.high != whole.high;
  };
  for (int i = 0; i < 64; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> flipped = values;
      flipped[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) ^ (1u << bit));
      EXPECT_TRUE(both_halves_differ(sum_of_piece(flipped.data(), 64, 0)));
    }
  }
  for (int i = 0; i + 1 < 64; ++i) {
    std::vector<float> swapped = values;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_TRUE(both_halves_differ(sum_of_piece(swapped.data(), 64, 0)));
  }
  EXPECT_TRUE(both_halves_differ(sum_of_piece(values.data(), 64, 1)));
  values[0] = 0.0f;
  const ContentSum zero = sum_of_piece(values.data(), 64, 0);
  values[0] = -0.0f;
  EXPECT_FALSE(sum_of_piece(values.data(), 64, 0) == zero);  // bits, not values
}

TEST(Digest, WeightsAreHashedByNameShapeAndSum) {
  const ContentSum a{1, 2}, b{3, 4};
  const std::string hash = weights_sha256({{"a", {2, 3}, a}, {"b", {6}, b}});
  EXPECT_EQ(hash, weights_sha256({{"b", {6}, b}, {"a", {2, 3}, a}}));
  EXPECT_NE(hash, weights_sha256({{"a", {3, 2}, a}, {"b", {6}, b}}));
  EXPECT_NE(hash, weights_sha256({{"a", {2, 3}, b}, {"b", {6}, a}}));
  EXPECT_NE(hash, weights_sha256({{"c", {2, 3}, a}, {"b", {6}, b}}));
  EXPECT_EQ(hash, sha256("a 2 3 sum 1 2\nb 6 sum 3 4\n"));
}

TEST(Digest, BytesAreHashedByContentPlaceAndCount) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i * i + 3 * i);
  const auto hash = [](const std::string& text, uint64_t seed = 7) {
    return hash_bytes(text.data(), text.size(), seed);
  };
  for (size_t count = 0; count <= bytes.size(); ++count) {
    const std::string part = bytes.substr(0, count);
    std::set<uint64_t> hashes = {hash(part), hash(part, 8), hash(part + '\0')};
    for (size_t i = 0; i < count; ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = part;
        flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
        hashes.insert(hash(flipped));
      }
    }
    EXPECT_EQ(hashes.size(), 3 + 8 * count) << count;
  }
  std::set<uint64_t> swaps = {hash(bytes)};
  for (size_t i = 0; i + 16 <= 128; i += 8)
    swaps.insert(hash(bytes.substr(0, i) + bytes.substr(i + 8, 8) + bytes.substr(i, 8) + bytes.substr(i + 16)));
  EXPECT_EQ(swaps.size(), 16u);
  EXPECT_EQ(hash(bytes), hash(std::string(bytes)));
}

}  // namespace
}  // namespace strata
