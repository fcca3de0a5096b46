// SPDX-License-Identifier: MIT
// bench_neighbors CONFIG [a.b.c=value ...]: measures the speed of neighbor sampling without a model.
#include <c10/util/ParallelGuard.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/run_program.h"
#include "tools/programs.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/graph_batch.h"
#include "trainer/tasks/task.h"

namespace strata {
namespace {

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  int64_t threads = 1, steps = 100;
};

void run(const Request& request) {
  trainer::TrainerConfig config = trainer::load_trainer_config(request.config, request.overrides).config;
  config.kernels = {};  // no kernel runs, so `best` needs no plan
  if (fan_outs(config.data).empty()) {
    throw Error(ExitCode::configuration, "data.neighbors is not a list such as [15, 10, 5]: no neighbors are sampled");
  }
  const std::unique_ptr<trainer::Task> task = trainer::make_task(config);
  std::atomic<int64_t> next{0}, nodes{0}, edges{0};
  const auto read = [&](int64_t end) {
    const c10::ParallelGuard one_thread(true);
    for (int64_t step = next++; step < end; step = next++) {
      const trainer::MicroBatch batch = task->training_batch(step * config.batch, config.micro_batch);
      const auto& [inputs, labels, graph] = batch.as<trainer::GraphBatch>();
      nodes += inputs.size(0);
      for (const auto& layer : graph->layers) edges += layer.graph.edges();
    }
  };
  read(/*end=*/3);  // warm-up: pages are touched for the first time
  next = nodes = edges = 0;
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> readers;
    for (int64_t i = 0; i < request.threads; ++i) readers.emplace_back(read, request.steps);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto steps = static_cast<double>(request.steps);
  std::printf(
      "threads %ld  ms of a batch %.2f  seeds/s %.0f  edges/s %.0f  nodes of a batch %.0f  edges of a batch %.0f\n",
      static_cast<long>(request.threads), 1e3 * seconds / steps,
      steps * static_cast<double>(config.micro_batch) / seconds, static_cast<double>(edges) / seconds,
      static_cast<double>(nodes) / steps, static_cast<double>(edges) / steps);
}

}  // namespace
}  // namespace strata

int strata::programs::bench_neighbors_main(int count, char** arguments) {
  using namespace strata;
  Request request;
  CLI::App app("Batches of sampled neighbors a second, by threads that make one each.", "bench neighbors");
  app.add_option("CONFIG", request.config, "configuration")->required();
  app.add_option("OVERRIDES", request.overrides, "a.b.c=value ...");
  app.add_option("--threads", request.threads, "that make batches")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--steps", request.steps, "whose batches are made")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  return run_program(app, count, arguments, [&] { run(request); });
}
