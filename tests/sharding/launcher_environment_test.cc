// SPDX-License-Identifier: MIT
// Checks what the variables of mpirun and srun say about the ranks of a run, and how all of them are ended.
#include "sharding/process/launcher_environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "base/errors.h"
#include "sharding/process/end_ranks.h"

namespace strata::sharding {
namespace {

// Sets what a launcher would set, and nothing else.
void set_environment(const std::map<std::string, std::string>& values) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"}) unsetenv(variable);
  for (const auto& [variable, value] : values) setenv(variable.c_str(), value.c_str(), /*overwrite=*/1);
}

TEST(LauncherEnvironment, NumbersAreReadIfTheyAreSet) {
  set_environment({{"OMPI_COMM_WORLD_SIZE", "12"}});
  EXPECT_EQ(environment_number("OMPI_COMM_WORLD_SIZE", 1), 12);
  EXPECT_EQ(environment_number("SLURM_STEP_NUM_TASKS", -7), -7);
}

TEST(LauncherEnvironment, RanksAreThoseOfTheLauncher) {
  set_environment({});
  EXPECT_EQ(ranks_of_launcher(), 1);
  set_environment({{"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(ranks_of_launcher(), 1);
  set_environment({{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(ranks_of_launcher(), 4);
  set_environment({{"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(ranks_of_launcher(), 1);
  set_environment({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "3"}});
  EXPECT_EQ(ranks_of_launcher(), 8);
  // mpirun within one task of srun
  set_environment({{"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(ranks_of_launcher(), 2);
}

TEST(LauncherEnvironment, TasksThatCannotFindEachOtherAreRefused) {
  set_environment({{"SLURM_STEP_NUM_TASKS", "8"}});
  try {
    ranks_of_launcher();
    FAIL() << "each task would train alone";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_STREQ(error.what(),
                 "srun started 8 tasks that cannot find each other: start them by `srun --mpi=pmix` or by mpirun");
  }
}

TEST(EndAllRanks, EndsThisProcessAtOnceWithoutOthers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(end_all_ranks({}, 7), testing::ExitedWithCode(7), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(EndAllRanks, AsksForTheEndOfTheOthersWithTheCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_all_ranks([](int code) { _exit(code + 1); }, 70), testing::ExitedWithCode(71), "");
}

// MPI_Abort may hang. This process ends nevertheless.
TEST(EndAllRanks, WaitsTwoSecondsForARequestThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(end_all_ranks([](int) { std::this_thread::sleep_for(std::chrono::minutes(5)); }, 5),
              testing::ExitedWithCode(5), "");
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, std::chrono::seconds(2));
  EXPECT_LT(taken, std::chrono::seconds(30));
}

}  // namespace
}  // namespace strata::sharding
