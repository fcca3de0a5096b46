// SPDX-License-Identifier: MIT
// call_times CONFIG: prints what a promise must know of a run as a line of JSON. With --measure FILE it appends that
// line to the file, a line for each op that agrees with its formula, with its times, and lines for each collective of
// the ranks that run, which may be fewer than run.ranks, and for their reading of images.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAFunctions.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/quantile.h"
#include "base/run_program.h"
#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "kernels/runtime/device_name.h"
#include "sharding/rank_session.h"
#include "tools/bench/kernels/timer.h"
#include "tools/programs.h"
#include "tools/promise/measurements.h"
#include "trainer/config/load_config.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/levels/level_check.h"
#include "trainer/start_rank.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"

namespace strata::tools {
namespace {

using nlohmann::ordered_json;

constexpr double kSecondsOfRounds = 6;

std::string line_of(const ordered_json& json) {
  return json.dump(-1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

at::Device device_of(trainer::RunConfig& run) {
  using sharding::DeviceSetting;
  const bool has_gpu = at::hasCUDA() && c10::cuda::device_count() > 0;
  if (run.device == DeviceSetting::automatic) run.device = has_gpu ? DeviceSetting::cuda : DeviceSetting::cpu;
  if (run.device == DeviceSetting::cpu) return at::kCPU;
  if (!has_gpu) {
    throw Error(ExitCode::configuration,
                "run.device is cuda, and this machine has no GPU whose times could be promised; use one that has");
  }
  return at::Device("cuda:0");
}

// The 10 % quantile, the mean and the 90 % quantile. Means can be added up: if another program interrupts one op in
// ten, the median of each op shows nothing of it, and the step is longer all the same.
ordered_json seconds_of(const std::vector<double>& times) {
  if (times.empty()) return nullptr;
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  return {std::min(quantile(times, 0.1), mean), mean, std::max(quantile(times, 0.9), mean)};
}

// Each op once, whatever the part of the step that calls it.
std::vector<trainer::OpCalls> distinct(const trainer::StepCalls& calls) {
  std::vector<trainer::OpCalls> all;
  for (const trainer::OpCalls& call : calls.ops) {
    const auto same = std::ranges::find(all, key_of(call), key_of);
    if (same == all.end()) all.push_back(call);
  }
  return all;
}

// On GPUs an op is timed alone, because caches are small beside what a layer reads. All its calls are queued before the
// first one runs.
void time_alone(TimedOp& op) {
  const Timing timing = time_workload(op.workload, op.calls.level);
  op.times.forward = {timing.forward_or_whole()};
  if (timing.backward) op.times.backward = {*timing.backward};
}

// The lines of all ops. One that does not agree with its formula has no times, and says why.
std::string op_lines(const trainer::StepCalls& calls, at::Device device) {
  std::string lines;
  std::vector<TimedOp> ops;
  for (const trainer::OpCalls& call : distinct(calls)) {
    std::string reason;
    try {
      kernels::Workload workload = kernels::make_workload(call.shape, call.dtype, device);
      reason = kernels::verdict(workload, call.level).words;
      if (reason.empty()) ops.push_back({call, std::move(workload)});
    } catch (const std::exception& error) {
      reason = kernels::sentence_of(error);
    }
    if (reason.empty()) continue;
    ordered_json line = key_of(call);
    line["not_timed"] = reason;
    lines += line_of(line);
  }
  if (device.is_cuda()) {
    for (TimedOp& op : ops) time_alone(op);
  } else {
    time_rounds(ops, kSecondsOfRounds);
  }
  for (const TimedOp& op : ops) {
    ordered_json line = key_of(op.calls);
    line["forward"] = seconds_of(op.times.forward);
    line["backward"] = seconds_of(op.times.backward);
    lines += line_of(line);
  }
  return lines;
}

void measure(trainer::LoadedConfig loaded, ordered_json facts, const trainer::StepCalls& calls,
             const std::string& path) {
  sharding::RankSession session({.timeout_seconds = loaded.config.run.timeout});
  loaded.config.run.ranks = session.ranks();  // those that measure; `calls` are of the ranks of the run
  trainer::start_rank(loaded, session);
  facts["measured_ranks"] = session.ranks();
  facts["measured_threads"] = at::get_num_threads();
  std::string lines = line_of(facts) + op_lines(calls, session.device());
  time_collectives(session, [&](const CollectiveTimes& times) {
    lines += line_of({{"operation", times.operation}, {"bytes", times.bytes}, {"seconds", seconds_of(times.seconds)}});
  });
  for (const FeedTimes& times : time_feed(loaded, session)) {
    lines += line_of({{"feed", facts["feed"]["name"]},
                      {"pass", times.pass},
                      {"micro_batches", times.micro_batches},
                      {"seconds", seconds_of(times.seconds)}});
  }
  if (session.rank() == 0) append_result(path, lines);
}

}  // namespace
}  // namespace strata::tools

int strata::programs::call_times_main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("What a promise must know of a run, and with --measure the times of its ops and collectives.",
               "promise");
  std::string config, file;
  std::vector<std::string> overrides;
  app.add_option("CONFIG", config, "the configuration of the run")->required();
  app.add_option("overrides", overrides, "a.b.c=value");
  app.add_option("--measure", file, "appends times to this file");
  return run_program(app, argc, argv, [&] {
    trainer::LoadedConfig loaded = trainer::load_run_config(config, overrides);
    const at::Device device = tools::device_of(loaded.config.run);
    apply_kernel_plan(loaded, {kernels::device_name(device), kernels::torch_version(), kernels::kernel_version(),
                               trainer::declared_model(loaded.config).modules});
    check_levels(loaded, trainer::declared_model(loaded.config).modules, kernels::target_of(device));
    trainer::StepCalls calls;
    nlohmann::ordered_json facts = tools::promise_facts(loaded.config, device, calls);
    facts["feed"] = tools::feed_facts(loaded);
    if (file.empty()) {
      std::fputs(tools::line_of(facts).c_str(), stdout);
    } else {
      tools::measure(loaded, facts, calls, file);
    }
  });
}
