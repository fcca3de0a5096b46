// SPDX-License-Identifier: MIT
// bench_generate CONFIG [a.b.c=value ...]: measures prompts and steps of generation for the model of a configuration,
// with random weights.
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/quantile.h"
#include "base/run_program.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/product_sums.h"
#include "tools/generation/chosen_kernels.h"
#include "tools/generation/continue_prompts.h"
#include "tools/generation/decoder.h"
#include "tools/generation/placement.h"
#include "tools/programs.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata {
namespace {

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  int64_t prompts = 1, length = 128, tokens = 64, rounds = 3;
  generation::Placement placement;
  std::string json;
};

std::map<std::string, at::Tensor> random_weights(const modules::TransformerConfig& config,
                                                 const at::TensorOptions& options) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      weights[parameter.name] = at::randn(parameter.shape, options).mul_(0.02);
    }
  }
  return weights;
}

int64_t bytes_of(const std::map<std::string, at::Tensor>& weights) {
  int64_t bytes = 0;
  for (const auto& [name, weight] : weights) bytes += static_cast<int64_t>(weight.nbytes());
  return bytes;
}

// Milliseconds: of the prompts of each round together, and from each token to the next.
struct Times {
  std::vector<double> prompts, steps;
};

Times measure(generation::Decoder& decoder, const generation::Prompts& prompts, const Request& request) {
  using Clock = std::chrono::steady_clock;
  const generation::Continuation greedy = {
      .tokens = request.tokens, .sampling = {.temperature = 0}, .batch = request.prompts};
  Times times;
  for (int64_t round = 0; round <= request.rounds; ++round) {  // the first one warms up
    Clock::time_point last = Clock::now();
    const auto add_to = [&](std::vector<double>& list) {
      const Clock::time_point now = Clock::now();
      if (round > 0) list.push_back(std::chrono::duration<double, std::milli>(now - last).count());
      last = now;
    };
    decoder.start(prompts, request.length + request.tokens - 1).cpu();  // the copy waits for the GPU
    add_to(times.prompts);
    bool is_first = true;
    generation::continue_prompts(decoder, prompts, greedy, [&](size_t row, int64_t) {
      if (row != 0) return;
      if (is_first) last = Clock::now();
      if (!is_first) add_to(times.steps);
      is_first = false;
    });
  }
  return times;
}

void bench(const Request& request) {
  const c10::InferenceMode inference;
  kernels::accumulate_products_in_fp32();
  const trainer::LoadedConfig run = trainer::load_trainer_config(request.config, request.overrides);
  const trainer::TrainerConfig& loaded = run.config;
  const auto* model = std::get_if<modules::TransformerConfig>(&loaded.model.type);
  if (model == nullptr) throw Error(ExitCode::configuration, request.config + ": only language models generate tokens");
  if (request.length + request.tokens > model->sequence) {
    throw Error(ExitCode::configuration, "prompts of " + std::to_string(request.length) + " and " +
                                             std::to_string(request.tokens) + " tokens more do not fit into " +
                                             "model.sequence, which is " + std::to_string(model->sequence));
  }
  const at::TensorOptions options = request.placement.tensor_options();
  const auto weights = random_weights(*model, options);
  generation::Decoder decoder(
      *model, loaded.precision.linear, [&](const std::string& name) { return weights.at(name); }, options.device(),
      request.placement.captures(), generation::chosen_kernels(request.placement.kernels, run, options));
  generation::Prompts prompts(static_cast<size_t>(request.prompts));
  for (std::vector<int64_t>& prompt : prompts) {
    const at::Tensor ids = at::randint(model->vocabulary, {request.length}, at::kLong);
    prompt.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + request.length);
  }
  generation::check_prompts(*model, prompts, request.tokens);
  const Times times = measure(decoder, prompts, request);
  const double prompt = median(times.prompts), step = median(times.steps);
  const auto rows = static_cast<double>(request.prompts);
  const int64_t weight_bytes = bytes_of(weights);
  const nlohmann::ordered_json json = {
      {"device", kernels::device_name(options.device())},
      {"dtype", request.placement.dtype},
      {"kernels", request.placement.kernels},
      {"prompts", request.prompts},
      {"tokens_per_prompt", request.length},
      {"prompts_milliseconds", prompt},
      {"prompt_tokens_per_second", rows * static_cast<double>(request.length) / prompt * 1e3},
      {"steps", times.steps.size()},
      {"step_milliseconds", step},
      {"step_milliseconds_p90", quantile(times.steps, 0.9)},
      {"tokens_per_second", rows / step * 1e3},
      {"weight_bytes", weight_bytes},
      {"weight_gigabytes_per_second", static_cast<double>(weight_bytes) / step / 1e6},
      {"cache_bytes", decoder.cache_bytes()}};
  for (const auto& [key, value] : json.items()) std::printf("%-28s %s\n", key.c_str(), value.dump().c_str());
  append_result(request.json, json.dump() + "\n");
}

}  // namespace
}  // namespace strata

int strata::programs::bench_generate_main(int count, char** arguments) {
  strata::Request request;
  CLI::App app("Measures prompts and steps of generation for the model of a configuration.", "bench_generate");
  app.add_option("CONFIG", request.config, "configuration with a language model")->required();
  app.add_option("KEY=VALUE", request.overrides, "keys of the configuration to replace");
  app.add_option("--prompts", request.prompts, "how many, in one batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--length", request.length, "tokens of each prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--tokens", request.tokens, "after each prompt")
      ->capture_default_str()
      ->check(CLI::Range(2, 100'000'000));
  app.add_option("--rounds", request.rounds, "how often, after one to warm up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  request.placement.add_options(app);
  app.add_option("--json", request.json, "file to which a line of JSON is appended");
  return strata::run_program(app, count, arguments, [&] { strata::bench(request); });
}
