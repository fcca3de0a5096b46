// SPDX-License-Identifier: MIT
// Checks collectives that differ but do not hang. Only the comparison at the end of a step finds them.
#include "sharding/communication/collective_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/errors.h"
#include "sharding/communication/local_communicator.h"
#include "tests/sharding/mpi_main.h"

namespace strata::sharding {
namespace {

using tests::session;

constexpr int kEvery = 3;

// Wraps local copies in the check of all ranks, so the collectives themselves never meet.
std::unique_ptr<Communicator> with_checks(CollectiveCheck& check) {
  return check.with_checks(std::make_unique<LocalCommunicator>(), session().host_group());
}

std::string refusal(CollectiveCheck& check) {
  try {
    check.end_step();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    return error.what();
  }
  return "";
}

TEST(CollectiveCheck, EqualCollectivesPass) {
  CollectiveCheck check(kEvery);
  const auto all = with_checks(check);
  at::Tensor values = at::ones({8});
  for (int step = 0; step < 4 * kEvery; ++step) {
    for (int i = 0; i < step; ++i) all->all_reduce(values, "values");
    EXPECT_EQ(refusal(check), "");
  }
}

TEST(CollectiveCheck, TheFirstDifferenceIsNamed) {
  const int last = session().ranks() - 1;
  const bool odd = session().rank() == last;
  at::Tensor values = at::ones({8}), longer = at::ones({9});
  struct Case {
    const char* name;
    std::function<void(Communicator&)> step;
    std::string words;
  };
  const std::vector<Case> cases = {
      {"size", [&](Communicator& all) { all.all_reduce(odd ? longer : values, "norm"); },
       "started collective 3, all_reduce of norm (9 float32), rank 0 started collective 3, all_reduce of norm (8 "
       "float32)"},
      {"label", [&](Communicator& all) { all.all_reduce(values, odd ? "a" : "b"); },
       "started collective 3, all_reduce of a (8 float32), rank 0 started collective 3, all_reduce of b (8 float32)"},
      {"skip",
       [&](Communicator& all) {
         if (!odd) all.all_reduce(values, "norm");
       },
       "started nothing more, rank 0 started collective 3, all_reduce of norm (8 float32)"},
  };
  for (const auto& [name, step, words] : cases) {
    CollectiveCheck check(kEvery);
    const auto all = with_checks(check);
    all->all_reduce(values, "first");
    EXPECT_EQ(refusal(check), "");
    all->all_reduce(values, "second");
    EXPECT_EQ(refusal(check), "");
    step(*all);
    EXPECT_NE(refusal(check).find("rank " + std::to_string(last) + " " + words), std::string::npos) << name;
  }
}

TEST(CollectiveCheck, AMissingLastCollectiveOfTheFirstStepIsNamed) {
  const int last = session().ranks() - 1;
  CollectiveCheck check(kEvery);
  const auto all = with_checks(check);
  at::Tensor values = at::ones({8});
  all->all_reduce(values, "first");
  std::string message;
  try {
    if (session().rank() != last) all->all_reduce(values, "second");
    check.end_step();
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("collective 2, all_reduce of second (8 float32)"), std::string::npos) << message;
  EXPECT_NE(message.find("rank " + std::to_string(last) + " starts the end of the step after 1 collectives"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace strata::sharding
