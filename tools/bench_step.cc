// SPDX-License-Identifier: MIT
// bench_step CONFIG [a.b.c=value ...]: the time of a whole training step of a configuration, on random data.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "configs/errors.h"
#include "modules/parameter_table.h"
#include "sharding/bootstrap.h"
#include "tools/random_data.h"
#include "trainer/load_config.h"
#include "trainer/memory_choice.h"
#include "trainer/peak_memory.h"
#include "trainer/start_rank.h"
#include "trainer/trainer.h"

namespace strata {
namespace {

using trainer::LoadedConfig;

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  int64_t warm_up = 10, steps = 30;
  std::string json;     // file to append a line to; empty: none
  std::string profile;  // folder for the profile of further steps; empty: none
  int64_t profiled_steps = 10;
};

// Dense bf16 of one GPU in TFLOP/s, without sparsity; 0: not known.
double peak_teraflops(const std::string& gpu) {
  return gpu.find("H100") != std::string::npos || gpu.find("H200") != std::string::npos ? 989.0 : 0.0;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

template <class Model>
nlohmann::ordered_json predicted_peak(const trainer::TrainerConfig& config, const trainer::GraphSizes& graph,
                                      const Model& model) {
  if (!trainer::predicts_step_memory(config, graph)) return nullptr;
  return trainer::sum_of(trainer::peak_memory(config, modules::parameter_table(model), graph));
}

template <class Model>
nlohmann::ordered_json report(const LoadedConfig& loaded, const sharding::Bootstrap& bootstrap,
                              const trainer::Measurement& measured, const Model& model) {
  const auto& config = loaded.config;
  const double median = quantile(measured.milliseconds, 0.5);
  const double items = static_cast<double>(config.batch * measured.items_per_sample) / median * 1e3;
  const double per_rank = items / static_cast<double>(config.run.ranks);
  const double teraflops = per_rank * modules::flops_per_item(model) / 1e12;
  const double peak = peak_teraflops(bootstrap.device_name());
  const std::string rate = std::string(Model::kItem) + "s_per_second";
  nlohmann::ordered_json json = {{"device", bootstrap.device_name()},
                                 {"ranks", config.run.ranks},
                                 {"communication", bootstrap.transport(config.sharding.gather)},
                                 {"batch", config.batch},
                                 {"micro_batch", config.micro_batch},
                                 {std::string(Model::kItem) + "s_per_sample", measured.items_per_sample},
                                 {"deterministic", config.run.deterministic},
                                 {"cuda_graph", measured.captured},
                                 {"steps", measured.milliseconds.size()},
                                 {"milliseconds", median},
                                 {"milliseconds_p10", quantile(measured.milliseconds, 0.1)},
                                 {"milliseconds_p90", quantile(measured.milliseconds, 0.9)},
                                 {rate, items},
                                 {rate + "_and_rank", per_rank},
                                 {"model_teraflops_per_rank", teraflops},
                                 {"mfu", peak > 0 ? nlohmann::ordered_json(teraflops / peak) : nullptr},
                                 {"peak_memory_bytes", measured.peak_memory_bytes},
                                 {"predicted_peak_memory_bytes", predicted_peak(config, measured.graph, model)},
                                 {"device_allocations", measured.device_allocations},
                                 {"loss", measured.loss}};
  if (!measured.profiled_milliseconds.empty()) {
    json["profiled_milliseconds"] = quantile(measured.profiled_milliseconds, 0.5);
    json["profile_overhead"] = quantile(measured.profiled_milliseconds, 0.5) / median - 1;
  }
  return json;
}

ExitCode run(LoadedConfig loaded, const Request& request) {
  if (!request.profile.empty()) {
    loaded.config.run.folder = request.profile;
    const int64_t before = request.warm_up + request.steps;
    loaded.config.profile.steps = configs::Range{before + 1, before + request.profiled_steps};
  }
  const tools::RandomData data(loaded.config);
  sharding::Bootstrap bootstrap({.timeout_seconds = loaded.config.run.timeout});
  // Each rank reads its own files: their names differ, the runs do not.
  loaded.config.data = {};
  trainer::start_rank(loaded, bootstrap);
  loaded.config.data = data.config();
  trainer::settle_memory(loaded, bootstrap);

  const trainer::Measurement measured =
      trainer::Trainer(loaded.config, "", bootstrap).measure(request.warm_up, request.steps);
  if (bootstrap.rank() > 0) return ExitCode::done;
  const nlohmann::ordered_json json = std::visit(
      [&](const auto& model) { return report(loaded, bootstrap, measured, model); }, loaded.config.model.type);
  for (const auto& [key, value] : json.items()) std::printf("%-28s %s\n", key.c_str(), value.dump().c_str());
  if (!request.json.empty()) {
    std::ofstream file(request.json, std::ios::app);
    file << json.dump() << "\n";
    if (!file.flush()) throw Error(ExitCode::storage, request.json + ": cannot be written");
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  using namespace strata;
  Request request;
  CLI::App app("The time of a whole training step of a configuration, on random tokens, images or graphs.",
               "bench step");
  app.add_option("CONFIG", request.config, "configuration")->required();
  app.add_option("OVERRIDES", request.overrides, "a.b.c=value ...");
  app.add_option("--warm-up", request.warm_up, "steps before those that count")
      ->capture_default_str()
      ->check(CLI::Range(5, 100000));
  app.add_option("--steps", request.steps, "steps that count")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--json", request.json, "file that gets the result as a line of JSON");
  app.add_option("--profile", request.profile, "folder that gets the profile of the steps that follow");
  app.add_option("--profile-steps", request.profiled_steps, "how many those are")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
  // Nothing is written into the run's folder, and no data of it is read.
  std::vector<std::string> overrides = {"run.folder=unused"};
  overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
  std::optional<LoadedConfig> loaded;
  try {
    loaded = trainer::load_trainer_config(request.config, overrides);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return trainer::exit_code_of([&] { return run(*loaded, request); });
}
