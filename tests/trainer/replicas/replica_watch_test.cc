// SPDX-License-Identifier: MIT
// Checks who is named when ranks that must hold the same weights do not.
#include "trainer/replicas/replica_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::trainer {
namespace {

// Hashes of two numbers for each rank. A letter stands for what the rank holds.
std::vector<float> hashes_of(const std::string& letters) {
  std::vector<float> hashes;
  for (const char letter : letters) hashes.insert(hashes.end(), {7, static_cast<float>(letter)});
  return hashes;
}

// Returns what the watch says of ranks that hold this, in groups of `shard_ranks` ranks that share one copy.
std::string seen(const std::string& letters, int shard_ranks = 1) {
  ReplicaWatch watch(static_cast<int>(letters.size()), shard_ranks, "runs/a");
  return watch.add(100, hashes_of(letters), 101);
}

void expect_words(const std::string& found, const std::string& words) {
  EXPECT_NE(found.find(words), std::string::npos) << found << "\nhas no: " << words;
}

TEST(ReplicaWatch, SaysNothingWhereReplicasAreEqual) {
  EXPECT_EQ(seen("aa"), "");
  EXPECT_EQ(seen("aaaaaaaa"), "");
  EXPECT_EQ(seen("abab", 2), "");
  EXPECT_EQ(seen("abcdabcd", 4), "");
  EXPECT_EQ(seen("abcd", 4), "");  // no two ranks hold the same
}

TEST(ReplicaWatch, NamesTheOddOne) {
  expect_words(seen("aab"), ":\n  rank 2 differs from ranks 0 and 1\n");
  expect_words(seen("baa"), ":\n  rank 0 differs from ranks 1 and 2\n");
  expect_words(seen("abaca"), ":\n  ranks 1 and 3 differ from ranks 0, 2 and 4\n");
  expect_words(seen(std::string(40, 'a') + "b"), ":\n  rank 40 differs from ranks 0-39\n");
}

TEST(ReplicaWatch, NamesAllWhereNoMajorityAgrees) {
  expect_words(seen("ab"), ":\n  no majority says who is right: rank 0; rank 1\n");
  expect_words(seen("abab"), ":\n  no majority says who is right: ranks 0 and 2; ranks 1 and 3\n");
  expect_words(seen("abca"), ":\n  no majority says who is right: ranks 0 and 3; rank 1; rank 2\n");
}

TEST(ReplicaWatch, ComparesEachGroupOfReplicas) {
  expect_words(seen("abac", 2), ":\n  no majority says who is right: rank 1; rank 3\na bit");
  expect_words(seen("abcbab", 2), ":\n  rank 2 differs from ranks 0 and 4\na bit");
  expect_words(seen("abcd", 2), "rank 0; rank 2\n  no majority says who is right: rank 1; rank 3\na bit");
}

TEST(ReplicaWatch, SaysSinceWhenAndWhatToDo) {
  expect_words(seen("ab"), "differ after step 100; they were not compared before:");
  ReplicaWatch watch(2, 1, "runs/a");
  EXPECT_EQ(watch.add(0, hashes_of("aa"), 1), "");
  EXPECT_EQ(watch.add(100, hashes_of("bb"), 101), "");
  const std::string found = watch.add(120, hashes_of("ab"), 120);
  expect_words(found, "differ after step 120; after step 100 they were equal:");
  expect_words(found, "'tools/strata replay runs/a --step 120'");
}

}  // namespace
}  // namespace strata::trainer
