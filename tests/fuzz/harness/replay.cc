// SPDX-License-Identifier: MIT
// Runs a target without a fuzzer: every seed of its corpus, and mutations of the seeds that are the same in every run.
// Usage: <target>_fuzz_test CORPUS MUTATIONS
//        <target>_fuzz_test --measure FILE...   prints for each file what reading it takes
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/end_process.h"
#include "tests/fuzz/harness/measure.h"
#include "tests/fuzz/harness/mutator.h"
#include "tests/fuzz/harness/oracle.h"

namespace strata::fuzz {
namespace {

constexpr size_t kLongestInput = 64 << 10;

std::string corpus_folder;
int mutations = 0;

struct Seed {
  std::string path, bytes;
};

std::vector<Seed> seeds() {
  std::vector<Seed> all;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    all.push_back({entry.path(), {std::istreambuf_iterator<char>(file), {}}});
  }
  // The order of a folder differs between file systems.
  std::sort(all.begin(), all.end(), [](const Seed& a, const Seed& b) { return a.path < b.path; });
  return all;
}

// Addresses above the limit are refused, so a reader that asks for too much gets std::bad_alloc, which is no Error.
// Sanitizers map terabytes of addresses and cannot run under this limit.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Above what the program has mapped at its start. A vector that grows holds its old and its new memory for a moment.
  constexpr rlim_t kPage = 4096;
  const rlim_t allowed = static_cast<rlim_t>(2 * kTarget.mebibytes) << 20;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * kPage + allowed;
  const rlimit limit = {most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

// Saves an input that fails where Bazel keeps the files of a test.
std::string saved(const std::string& bytes) {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string path = (folder == nullptr ? std::string(".") : std::string(folder)) + "/finding";
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

struct Verdicts {
  int accepted = 0, refused = 0;

  void add(const std::string& bytes) {
    const Verdict verdict = run_target(bytes);
    ++(verdict.accepted ? accepted : refused);
    if (!verdict.complaint.empty()) ADD_FAILURE() << verdict.complaint << "; the input is " << saved(bytes);
  }
};

TEST(Replay, EverySeed) {
  Verdicts verdicts;
  for (const Seed& seed : seeds()) {
    SCOPED_TRACE(seed.path);
    verdicts.add(seed.bytes);
  }
  EXPECT_GT(verdicts.accepted, 0) << "no seed of " << corpus_folder << " is a good file";
}

TEST(Replay, Mutations) {
  limit_memory();
  const std::vector<Seed> all = seeds();
  ASSERT_FALSE(all.empty());
  Mutator mutator(kTarget.words);
  Verdicts verdicts;
  for (int i = 0; i < mutations && !HasFailure(); ++i) {
    std::string bytes = mutator.damaged(all[static_cast<size_t>(i) % all.size()].bytes);
    if (kTarget.mend != nullptr && mutator.below(4) != 0) bytes = kTarget.mend(std::move(bytes));
    if (bytes.size() <= kLongestInput) verdicts.add(bytes);
  }
  EXPECT_GT(verdicts.refused, 0) << "no mutation was refused";
  std::printf("%d accepted, %d refused\n", verdicts.accepted, verdicts.refused);
}

}  // namespace
}  // namespace strata::fuzz

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "--measure") == 0) {
    strata::fuzz::measure({arguments + 2, arguments + count});
    return 0;
  }
  testing::InitGoogleTest(&count, arguments);
  if (count != 3) return 2;
  strata::fuzz::corpus_folder = arguments[1];
  strata::fuzz::mutations = std::atoi(arguments[2]) * (std::getenv("STRATA_TEST_ALL") == nullptr ? 1 : 50);
  strata::end_process(RUN_ALL_TESTS());
}
