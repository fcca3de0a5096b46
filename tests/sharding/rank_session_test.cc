// SPDX-License-Identifier: MIT
#include "sharding/rank_session.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/errors.h"
#include "tests/sharding/mpi_main.h"

namespace {

std::atomic<int> messages{0};  // that this rank has sent, without those of watchdogs

}  // namespace

// Stands in for that of MPI, which MPI allows by the names with a P.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
                         MPI_Request* request) {
  constexpr int kTagOfWatchdogs = 0;
  if (tag != kTagOfWatchdogs) ++messages;
  return PMPI_Isend(data, count, type, rank, tag, communicator, request);
}

namespace strata::sharding {
namespace {

using tests::session;

int launched(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

TEST(RankSessionTest, KnowsWhoItIs) {
  EXPECT_EQ(session().rank(), launched("OMPI_COMM_WORLD_RANK", 0));
  EXPECT_EQ(session().ranks(), launched("OMPI_COMM_WORLD_SIZE", 1));
  EXPECT_EQ(session().local_rank(), session().rank());  // all ranks are on this machine
  EXPECT_EQ(session().local_ranks(), session().ranks());
  EXPECT_FALSE(session().host().empty());
  EXPECT_EQ(session().host_group().thread() == nullptr, session().ranks() == 1) << "a rank alone starts no MPI";
}

TEST(RankSessionTest, GathersTextsOfAnySize) {
  // Near 1000 bytes, a text no longer fits into its first message.
  for (const size_t size : {0, 1, 990, 1000, 1010, 5'000'000}) {
    auto text = [size](int rank) {
      return std::string(size * static_cast<size_t>(rank + 1), static_cast<char>('a' + rank)) + '\0' + "\n";
    };
    const auto texts = session().gather(text(session().rank()));
    ASSERT_EQ(texts.size(), static_cast<size_t>(session().ranks()));
    for (int rank = 0; rank < session().ranks(); ++rank)
      EXPECT_TRUE(texts[static_cast<size_t>(rank)] == text(rank)) << size;
  }
}

TEST(RankSessionTest, ARankSendsFewMessagesForAGather) {
  int rounds = 0;
  while (1 << rounds < session().ranks()) ++rounds;
  for (const auto& [bytes, expected] : {std::pair(10, rounds), std::pair(5000, 2 * rounds)}) {
    const int before = messages;
    session().gather(std::string(static_cast<size_t>(bytes), 'x'));
    EXPECT_EQ(messages - before, expected) << bytes;
  }
}

TEST(RankSessionTest, BroadcastsFromEveryRank) {
  for (int root = 0; root < session().ranks(); ++root)
    EXPECT_EQ(session().broadcast("from " + std::to_string(session().rank()), root), "from " + std::to_string(root));
  EXPECT_THROW(session().broadcast("", session().ranks()), Error);
}

TEST(RankSessionTest, RanksThatDifferAreNamed) {
  session().require_equal("configuration", "a\nb\n");
  const int last = session().ranks() - 1;
  if (last == 0) return;
  auto message = [&](const std::string& text) -> std::string {
    try {
      session().require_equal("configuration", text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(session().rank() == last ? "a\nc\n" : "a\nb\n"),
            "ranks differ in their configuration, line 2: rank 0 has `b`, rank " + std::to_string(last) + " has `c`");
  EXPECT_EQ(
      message(session().rank() == last ? "a" : "a\nb"),
      "ranks differ in their configuration, line 2: rank 0 has `b`, rank " + std::to_string(last) + " ends before it");
}

TEST(RankSessionTest, HostMessagesOfDifferentKindsDoNotMix) {
  const int last = session().ranks() - 1;
  if (last == 0) return;
  std::string message;
  try {
    if (session().rank() == last)
      session().barrier();
    else
      session().gather("text");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    message = error.what();
  }
  EXPECT_NE(message.find("rank " + std::to_string(last) + " starts a barrier"), std::string::npos) << message;
  EXPECT_NE(message.find("a gather of texts"), std::string::npos) << message;
}

TEST(RankSessionTest, HostGroupsSplit) {
  const HostGroup& all = session().host_group();
  const HostGroup part = all.split(all.rank() % 2);
  EXPECT_EQ(part.rank(), all.rank() / 2);
  const auto texts = part.gather(std::to_string(all.rank()), "a test");
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], std::to_string(2 * static_cast<int>(i) + all.rank() % 2));
}

TEST(RankSessionTest, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(RankSession({.timeout_seconds = 0}), Error);
  EXPECT_THROW(RankSession({.compare_collectives_every = 0}), Error);
}

}  // namespace
}  // namespace strata::sharding
