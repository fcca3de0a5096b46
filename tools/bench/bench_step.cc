// SPDX-License-Identifier: MIT
// bench_step CONFIG [a.b.c=value ...]: measures whole training steps of a configuration, on random data or its own.
#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/quantile.h"
#include "base/text/printable.h"
#include "configs/range.h"
#include "kernels/proof/workload_check.h"
#include "kernels/runtime/level.h"
#include "modules/config/model_config.h"
#include "sharding/rank_session.h"
#include "tools/bench/measure_steps.h"
#include "tools/bench/step_level.h"
#include "tools/programs.h"
#include "tools/random_data.h"
#include "trainer/config/load_config.h"
#include "trainer/config/scalar_type.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/profile/peaks.h"
#include "trainer/settle_recompute.h"
#include "trainer/start_rank.h"
#include "trainer/step.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"

namespace strata {
namespace {

using trainer::LoadedConfig;

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  int64_t warm_up = 10, steps = 30;
  bool own_data = false, same_batch = false;
  int64_t document_tokens = 0;  // 0: half of a sample
  std::string json;             // file to append a line to; empty: none
  int64_t profiled_steps = 10;
  std::string profile;  // folder for the whole profile; empty: only the breakdown is printed
  std::string level;    // level of all ops; "best": from a plan; empty: from the configuration
  std::string aten;     // file with the step at level aten, which the first step must agree with; empty: none
};

int64_t predicted_peak(const trainer::TrainerConfig& config) {
  trainer::StepTrace step = trace_step(config, *make_task(config));
  step.evaluation = 0;  // a benchmark has none
  return sum_of(trainer::PeakMemory(config).classes(step));
}

// Milliseconds of a profiled step on rank 0: the parts that add up to the step, and all communication, hidden or not.
// If kernels of a graph replay could not be named, `other` has their time and `difference` says so.
nlohmann::ordered_json breakdown(const std::optional<trainer::profile::StepTimes>& times) {
  if (!times) return nullptr;
  const auto milliseconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; };
  nlohmann::ordered_json json = {{"forward", milliseconds(times->forward)},
                                 {"backward", milliseconds(times->backward)},
                                 {"optimizer", milliseconds(times->optimizer)},
                                 {"other", milliseconds(times->other)},
                                 {"exposed_communication", milliseconds(times->exposed)},
                                 {"idle", milliseconds(times->idle)},
                                 {"step", milliseconds(times->total)},
                                 {"communication", milliseconds(times->communication)}};
  if (!times->difference.empty()) json["difference"] = times->difference;
  return json;
}

nlohmann::ordered_json json_of(const tools::StepCounts& counts) {
  int64_t operators = 0;
  for (const auto& [name, calls] : counts.operators) operators += calls;
  auto collectives = nlohmann::ordered_json::object();
  for (const auto& [name, count] : counts.collectives) {
    collectives[name] = {{"calls", count.calls}, {"bytes", count.bytes}};
  }
  return {{"operators", operators},
          {"allocations", counts.allocations},
          {"allocated_bytes", counts.allocated_bytes},
          {"collectives", collectives},
          {"operators_by_name", counts.operators}};
}

template <class Model>
nlohmann::ordered_json report(const LoadedConfig& loaded, const sharding::RankSession& session,
                              const trainer::Task& task, const tools::StepMeasurement& measured,
                              const Model& /*model*/) {
  const auto& config = loaded.config;
  const double median = quantile(measured.milliseconds, 0.5);
  const double items = static_cast<double>(config.batch * task.items_per_sample()) / median * 1e3;
  const double per_rank = items / static_cast<double>(config.run.ranks);
  const std::vector<modules::ParameterGroup> groups = trainer::declared_groups(config.model);
  const double teraflops = per_rank * modules::flops_per_item(config.model, groups, document_lengths(task)) / 1e12;
  const double peak = trainer::profile::peaks_of(session.device_name()).advertised.flops / 1e12;
  const std::string rate = std::string(Model::kItem) + "s_per_second";
  nlohmann::ordered_json json = {{"device", session.device_name()},
                                 {"ranks", config.run.ranks},
                                 {"communication", session.transport(config.sharding.gather)},
                                 {"batch", config.batch},
                                 {"micro_batch", config.micro_batch},
                                 {std::string(Model::kItem) + "s_per_sample", task.items_per_sample()},
                                 {"deterministic", config.run.deterministic},
                                 {"cuda_graph", measured.captured},
                                 {"steps", measured.milliseconds.size()},
                                 {"skipped_steps", measured.skipped},
                                 {"milliseconds", median},
                                 {"milliseconds_p10", quantile(measured.milliseconds, 0.1)},
                                 {"milliseconds_p90", quantile(measured.milliseconds, 0.9)},
                                 {"watts", nullptr},
                                 {rate, items},
                                 {rate + "_and_rank", per_rank},
                                 {"model_teraflops_per_rank", teraflops},
                                 {"mfu", peak > 0 ? nlohmann::ordered_json(teraflops / peak) : nullptr},
                                 {"peak_memory_bytes", measured.peak_memory_bytes},
                                 {"step_memory_bytes", measured.step_memory_bytes},
                                 {"predicted_peak_memory_bytes", predicted_peak(config)},
                                 {"device_allocations", measured.device_allocations},
                                 {"first_loss", measured.first.loss},
                                 {"first_gradient_norm", measured.first.gradient_norm},
                                 {"loss", measured.loss},
                                 {"launches", nullptr},
                                 {"breakdown", breakdown(measured.profiled)}};
  if (measured.profiled) json["launches"] = measured.profiled->launches;
  if (!measured.profiled_milliseconds.empty()) {
    json["profiled_milliseconds"] = quantile(measured.profiled_milliseconds, 0.5);
    // The time of the first step includes the start of the profiler, and the time of the last step its end. With fewer
    // than 3 steps the median includes one of them.
    json["profile_overhead"] = nullptr;
    if (measured.profiled_milliseconds.size() >= 3) {
      json["profile_overhead"] = quantile(measured.profiled_milliseconds, 0.5) / median - 1;
    }
  }
  return json;
}

void print(const nlohmann::ordered_json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured()) continue;
    std::printf("%-32s %s\n", key.c_str(), value.dump().c_str());
  }
  for (const auto& [part, value] : json["breakdown"].items()) {
    std::printf("breakdown.%-22s %s\n", part.c_str(), value.dump().c_str());
  }
  for (const auto& [what, value] : json["counts"][0].items()) {
    if (what != "operators_by_name") std::printf("counts.%-25s %s\n", what.c_str(), value.dump().c_str());
  }
}

// Starts the rank and changes the configuration for the benchmark. `data` are files of random data, or nothing.
void prepare(LoadedConfig& loaded, const Request& request, const std::optional<tools::RandomData>& data,
             sharding::RankSession& session) {
  // The profiled steps come after the measured ones, which run without a profiler.
  const int64_t unprofiled = request.warm_up + request.steps;
  loaded.config.profile.steps.reset();
  if (request.profiled_steps > 0) {
    loaded.config.profile.steps = configs::Range{unprofiled + 1, unprofiled + request.profiled_steps};
  }
  trainer::start_rank(loaded, session);
  const auto level = std::find(kernels::kLevelNames.begin(), kernels::kLevelNames.end(), request.level);
  if (level != kernels::kLevelNames.end()) {
    tools::set_level(loaded, kernels::Level(level - kernels::kLevelNames.begin()), session.device());
  }
  // Data are set after the ranks compared their configurations and the plan was read, because each rank reads its own
  // files.
  if (data) loaded.config.data = data->config();
  loaded.config.sparsity.from_step = 1;  // the steps that prune are measured, as a plan measures them
  trainer::settle_recompute(loaded, session);
  loaded.config.run.folder = request.profile;
}

// Adds to the report what each rank measured: its counts to a list, and its power to a sum.
void add_rank(const nlohmann::ordered_json& rank, nlohmann::ordered_json& json) {
  json["counts"].push_back(rank["counts"]);
  if (rank["watts"].is_null()) {
    json["watts"] = nullptr;
  } else if (json["watts"].is_number()) {
    json["watts"] = json["watts"].get<double>() + rank["watts"].get<double>();
  }
}

void warn_of_skipped_steps(const tools::StepMeasurement& measured) {
  if (measured.skipped == 0) return;
  // After a step that is not finite for another reason, all later ones are skipped unless run.on_nonfinite is skip.
  const bool only_overflowed = measured.overflowed == measured.skipped;
  std::fprintf(stderr, "warning: %lld of the %zu measured steps did not update the weights, because %s\n",
               static_cast<long long>(measured.skipped), measured.milliseconds.size(),
               only_overflowed ? "gradients overflowed; give --warm-up more steps, until the loss scale fits"
                               : "the loss or a gradient was not finite in one of the steps");
}

ExitCode measure(LoadedConfig& loaded, const Request& request, const std::optional<tools::StepOfAten>& aten,
                 sharding::RankSession& session) {
  std::optional<tools::RandomData> data;
  if (!request.own_data) data.emplace(loaded.config.model, loaded.config.data, request.document_tokens);
  prepare(loaded, request, data, session);
  trainer::Step step(loaded.config, session, [](const std::string& table) { std::puts(table.c_str()); });
  if (request.same_batch) step.repeat_batches();
  const auto check = [&](const trainer::StepResult& first) {
    if (aten) tools::require_the_same_step(first, *aten, scalar_type(loaded.config.precision.compute));
  };
  const int64_t all_steps = request.warm_up + request.steps + request.profiled_steps;
  const tools::StepMeasurement measured =
      tools::measure_steps(step, session, request.warm_up, request.steps, all_steps, check);
  nlohmann::ordered_json own = {{"counts", json_of(measured.counts)}, {"watts", nullptr}};
  if (measured.watts) own["watts"] = *measured.watts;
  const std::vector<std::string> rank_texts = session.gather(own.dump());
  if (session.rank() > 0) return ExitCode::done;
  nlohmann::ordered_json json =
      std::visit([&](const auto& model) { return report(loaded, session, step.task(), measured, model); },
                 loaded.config.model.type);
  json["watts"] = 0.0;  // null if a rank does not know its own
  for (const std::string& text : rank_texts) add_rank(nlohmann::ordered_json::parse(text), json);
  if (!request.level.empty()) {
    json["level"] = request.level;
    json["levels"] = tools::levels_of_ops(loaded.config.kernels, trainer::declared_model(loaded.config).modules);
    if (aten) json["times_aten"] = json["milliseconds"].get<double>() / aten->milliseconds;
  }
  print(json);
  append_result(request.json, json.dump() + "\n");
  warn_of_skipped_steps(measured);
  return ExitCode::done;
}

// True if the level, or an op at this level, does not take this device, dtype or model.
bool means_that_the_level_is_absent(const std::exception& error) {
  const auto* strata_error = dynamic_cast<const Error*>(&error);
  return strata_error != nullptr ? strata_error->code() == ExitCode::configuration
                                 : dynamic_cast<const c10::ValueError*>(&error) != nullptr;
}

ExitCode run(LoadedConfig loaded, const Request& request) {
  std::optional<tools::StepOfAten> aten;
  if (!request.aten.empty()) aten = tools::read_step_of_aten(request.aten);
  sharding::RankSession session({.timeout_seconds = loaded.config.run.timeout});
  try {
    return measure(loaded, request, aten, session);
  } catch (const std::exception& error) {
    if (!aten) throw;
    if (session.rank() == 0) {
      const std::string reason = kernels::sentence_of(error);
      std::printf("level %s is not timed: %s\n", request.level.c_str(), reason.c_str());
      const nlohmann::ordered_json row = {{"level", request.level}, {"not_timed", reason}};
      append_result(request.json, row.dump() + "\n");
    }
    if (!means_that_the_level_is_absent(error)) throw;
    session.pause_watchdog();
    return ExitCode::done;
  }
}

void add_options(CLI::App& app, Request& request) {
  app.add_option("CONFIG", request.config, "configuration")->required();
  app.add_option("OVERRIDES", request.overrides, "a.b.c=value ...");
  app.add_option("--warm-up", request.warm_up, "steps before those that count")
      ->capture_default_str()
      ->check(CLI::Range(5, 100000));
  app.add_option("--steps", request.steps, "steps that count")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--document-tokens", request.document_tokens,
                 "tokens of a document on average, for data.documents=separate; otherwise half of a sample")
      ->check(CLI::Range(1, 1 << 24));
  app.add_flag("--own-data", request.own_data, "reads the data of the configuration instead of random data");
  app.add_flag("--same-batch", request.same_batch, "all steps have the samples of the first one, which waits for them");
  app.add_option("--json", request.json, "file to which the result is appended as a line of JSON");
  app.add_option("--profile-steps", request.profiled_steps, "steps after these, which are profiled for the breakdown")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  app.add_option("--profile", request.profile, "folder for the whole profile of the profiled steps");
  std::vector<std::string> levels(kernels::kLevelNames.begin(), kernels::kLevelNames.end());
  levels.emplace_back("best");
  app.add_option("--level", request.level,
                 "level of every op instead of the levels of the configuration; an op without it is at aten")
      ->check(CLI::IsMember(levels));
  app.add_option("--aten", request.aten,
                 "file of --json of the same step at level aten; loss and gradient norm of step 1 must be the same")
      ->needs("--level");
}

// The benchmark writes nothing into the run's folder. It reads no data, unless they are many small graphs or --own-data
// is given.
LoadedConfig load(const Request& request) {
  std::vector<std::string> overrides = {"run.folder=unused"};
  overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
  if (!request.level.empty() && request.level != "best") overrides.emplace_back("kernels={default: aten}");
  return trainer::load_run_config(request.config, overrides);
}

}  // namespace
}  // namespace strata

int strata::programs::bench_step_main(int count, char** arguments) {
  using namespace strata;
  Request request;
  CLI::App app("The time of a whole training step of a configuration, on random tokens, images or graphs.",
               "bench step");
  add_options(app, request);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
  if (!request.profile.empty() && request.profiled_steps == 0) {
    std::fprintf(stderr, "--profile-steps is 0, and --profile wants the profile of at least one step\n");
    return static_cast<int>(ExitCode::configuration);
  }
  std::optional<LoadedConfig> loaded;
  try {
    loaded = load(request);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(error.code());
  }
  if (request.document_tokens > 0 && documents_of(loaded->config.data) != trainer::DocumentUse::separate) {
    std::fprintf(stderr,
                 "--document-tokens is the length of separate documents; give data.documents=separate with it\n");
    return static_cast<int>(ExitCode::configuration);
  }
  return trainer::exit_code_of([&] { return run(*loaded, request); });
}
