// SPDX-License-Identifier: MIT
// Checks who sees the gradients of a step before they are reduced: also in steps after one that was run again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/errors.h"
#include "tests/sharding/mpi_main.h"
#include "trainer/config/load_config.h"
#include "trainer/step.h"

namespace strata::trainer {
namespace {

class GradientCounter : public StepObserver {
 public:
  int64_t groups = 0;

  void arm() override {}
  modules::Layer wrap_layer(int64_t, modules::Layer layer) override { return layer; }
  void begin(const std::vector<sharding::ShardedParameterGroup*>&, const std::map<std::string, at::Tensor>&) override {}
  void gradients(const sharding::ShardedParameterGroup&) override { ++groups; }
  void after_backward() override {}
  void end() override {}
};

TEST(StepGradients, AreObservedAgainAfterAStepThatWasNotFinite) {
  setenv("STRATA_FAULTS", "1", /*overwrite=*/1);
  const std::string device = tests::device().is_cuda() ? "cuda" : "cpu";
  const std::string text = "run: {folder: unused, device: " + device +
                           ", ranks: " + std::to_string(tests::session().ranks()) +
                           ", on_nonfinite: skip}\nsteps: 9\nbatch: 1\nmicro_batch: 1\n"
                           "model: {type: graph_network, convolution: sage, layers: 2, width: 12, features: 16, "
                           "classes: 5}\ndata: {type: synthetic_graph, nodes: 60, edges: 400}\n"
                           "optimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n"
                           "cuda_graph: off\nfault: {kind: nan, at: step 2 rank 0}\n";
  const TrainerConfig config = parse_trainer_config("test.yaml", text, {}).config;
  GradientCounter counter;
  Step step(
      config, tests::session(), [](const std::string&) {}, &counter);
  const auto run_next = [&] {
    step.queue_next();
    while (step.next_result(/*all=*/true)) {
    }
  };
  run_next();
  const int64_t groups = counter.groups;
  EXPECT_EQ(groups, std::ssize(step.model().groups()));
  run_next();
  EXPECT_EQ(counter.groups, 2 * groups);
  EXPECT_THROW(step.explain_skipped_update(2), Error);
  EXPECT_EQ(counter.groups, 2 * groups);  // the gradients of this run of the step are checked instead
  run_next();
  EXPECT_EQ(counter.groups, 3 * groups);
}

}  // namespace
}  // namespace strata::trainer
