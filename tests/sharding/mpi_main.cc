// SPDX-License-Identifier: MIT
#include "tests/sharding/mpi_main.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/end_process.h"
#include "kernels/runtime/product_sums.h"
#include "tests/chosen_file.h"

namespace strata::tests {
namespace {

constexpr double kTimeoutSeconds = 30;
std::unique_ptr<sharding::RankSession> the_session;
std::unique_ptr<sharding::Communicator> the_world;

// Rank 0 prints as usual, the other ranks print only failures. After each test the ranks exchange the result and stop
// together at the first failure. Otherwise ranks that do different things would wait for each other.
class TogetherListener : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", session().rank(), result.file_name(), result.line_number(),
                   result.message());
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    for (const auto& answer : session().gather(test.result()->Failed() ? "failed" : ""))
      failed_ = failed_ || !answer.empty();
    if (!failed_) return;
    std::fprintf(stderr, "[rank %d] stops after %s.%s\n", session().rank(), test.test_suite_name(), test.name());
    std::exit(1);
  }
  bool failed_ = false;
};

}  // namespace

sharding::RankSession& session() { return *the_session; }

sharding::Communicator& world() {
  if (!the_world) the_world = session().communicator();
  return *the_world;
}

at::Device device() { return session().device(); }

}  // namespace strata::tests

int main(int count, char** arguments) {
  using namespace strata;
  testing::InitGoogleTest(&count, arguments);
  if (!tests::choose_file(arguments[0])) return 2;
  GTEST_FLAG_SET(catch_exceptions, false);  // an exception ends all ranks, with its text
  tests::the_session =
      std::make_unique<sharding::RankSession>(sharding::RankSessionOptions{.timeout_seconds = tests::kTimeoutSeconds});
  const char* device = std::getenv("STRATA_TEST_DEVICE");
  const bool on_gpu = device != nullptr && std::string_view(device) == "cuda";
  if (on_gpu) {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  kernels::accumulate_products_in_fp32();
  tests::session().choose_device(on_gpu ? sharding::DeviceSetting::cuda : sharding::DeviceSetting::cpu);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (tests::session().rank() > 0) {  // all ranks have the same output and XML_OUTPUT_FILE
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
  }
  listeners.Append(new tests::TogetherListener);
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test was run\n");
    return 1;
  }
  tests::the_world.reset();
  tests::the_session.reset();
  end_process(failed);
}
