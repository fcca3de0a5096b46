// SPDX-License-Identifier: MIT
// replay RUN --step N: trains a step of a run again, from a checkpoint before it, and compares it with the run's
// ledger.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/printable.h"
#include "base/ranks.h"
#include "sharding/bootstrap.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/load_config.h"
#include "trainer/ledger/ledger.h"
#include "trainer/ledger/ledger_comparison.h"
#include "trainer/ledger/op_trace.h"
#include "trainer/ledger/run_facts.h"
#include "trainer/resume.h"
#include "trainer/start_rank.h"
#include "trainer/step.h"
#include "trainer/tasks/load_run_config.h"
#include "trainer/weights_hash.h"

namespace strata {
namespace {

using trainer::LoadedConfig;
using trainer::OpTrace;
using trainer::Step;
using trainer::TrainerConfig;

struct Request {
  std::string run;
  int64_t step = 0;
  std::optional<int64_t> from;  // absent: the nearest checkpoint before the step
  bool locate = false;
  std::vector<std::string> overrides;
};

// Relative differences that are allowed for each step since the start where bits cannot be equal. In float32 another
// number of ranks changes the first loss by less than 1e-6, and updates multiply that. 2^-8 is a last digit of
// bfloat16.
constexpr double kRoundingFloat32 = 1.0 / (1 << 16), kRoundingBfloat16 = 1.0 / (1 << 8);

double rounding_of(const trainer::PrecisionConfig& precision) {
  const bool single = precision.compute == trainer::FloatType::float32 && !precision.is_mixed();
  return single ? kRoundingFloat32 : kRoundingBfloat16;
}

// A replay of one run on this rank.
class Replay {
 public:
  Replay(const Request& request, sharding::Bootstrap& bootstrap)
      : request_(request),
        bootstrap_(bootstrap),
        ranks_{bootstrap.rank(), bootstrap.ranks(), [&](const std::string& text) { return bootstrap.gather(text); }},
        from_(find_start()) {}

  // Trains up to the requested step, and returns the ledger of this rank as it is stored.
  std::string train(TrainerConfig config, OpTrace* trace) {
    config.profile.steps.reset();
    config.checkpoint.resume = from_ > 0 ? trainer::Resume::require : trainer::Resume::never;
    Step step(
        config, bootstrap_, [](const std::string&) {}, trace);
    const std::string data = step.task().data_fingerprint();
    bootstrap_.require_equal("data", data);
    trainer::FindOptions from{.folder = checkpoints()};
    if (from_ > 0) from.step = from_;
    const trainer::Beginning beginning = begin_run(config, from, step, ranks_, data);
    std::string ledger =
        records_of(trainer::LedgerStart{.after = from_, .facts = run_facts(config, data, bootstrap_.device())}) +
        trainer::record_of_weights(from_, beginning.weights_sha256);
    while (step.number() < request_.step) {
      if (trace != nullptr && step.number() + 1 == request_.step) trace->arm();
      step.take();
      const int64_t number = step.number(), every = config.checkpoint.every;
      const bool hashes = number == request_.step || (every > 0 && number % every == 0);
      while (const std::optional<trainer::StepResult> result = step.next_result(/*all=*/hashes)) {
        ledger += record_of(trainer::LedgerStep{.step = result->step,
                                                .data = step.data_hash(result->step),
                                                .loss = result->loss,
                                                .gradient_norm = result->gradient_norm,
                                                .loss_of_rank = result->loss_of_rank,
                                                .squares_of_rank = result->squares_of_rank});
      }
      if (hashes) ledger += trainer::record_of_weights(number, weights_sha256(step.model(), *step.mesh().shard));
      bootstrap_.end_step();
    }
    bootstrap_.pause_watchdog();
    return ledger;
  }

  ExitCode compare(const LoadedConfig& loaded) {
    read_ledgers();
    say("replays step " + std::to_string(from_ + 1) + " to " + std::to_string(request_.step) +
        (from_ > 0 ? ", from the checkpoint of step " + std::to_string(from_) : ", from the initial weights"));
    const std::vector<std::string> own = bootstrap_.gather(train(loaded.config, nullptr));
    trainer::Comparison comparison;
    const std::string code = gather_results(ranks_, [&] {
      if (ranks_.rank != 0) return std::string();
      std::vector<trainer::Ledger> replayed;
      for (const std::string& ledger : own) replayed.push_back(trainer::parse_ledger(ledger));
      comparison =
          trainer::compare(recorded_, replayed,
                           {.after = from_, .last = request_.step, .rounding = rounding_of(loaded.config.precision)});
      return std::to_string(static_cast<int>(code_of(comparison.verdict)));
    })[0];
    say(comparison.text);
    return static_cast<ExitCode>(std::stoi(code));
  }

  // Runs the step twice from the same state: with the fault that the configuration injects, and without.
  ExitCode locate(const LoadedConfig& loaded) {
    const trainer::FaultConfig& fault = loaded.config.fault;
    const auto place = trainer::place_of_fault(fault.at);
    if (fault.kind != trainer::Fault::none && place && place->step != request_.step) {
      throw Error(ExitCode::configuration, "fault.at names step " + std::to_string(place->step) +
                                               ", and both runs must reach step " + std::to_string(request_.step) +
                                               " in the same state; give --step " + std::to_string(place->step));
    }
    TrainerConfig without = loaded.config;
    without.cuda_graph = trainer::CudaGraph::off;  // the ops of a captured step cannot be seen
    TrainerConfig with = without;
    without.fault = {};
    OpTrace expected, found;
    train(without, &expected);
    train(with, &found);
    return report(expected.entries(), found.entries(), fault.kind != trainer::Fault::none);
  }

 private:
  static ExitCode code_of(trainer::Verdict verdict) {
    if (verdict == trainer::Verdict::data_differ) return ExitCode::data;
    return verdict == trainer::Verdict::numbers_differ ? ExitCode::numerics : ExitCode::done;
  }

  std::string checkpoints() const { return request_.run + "/checkpoints"; }

  // On rank 0. A step that was not recorded is an error before anything is trained.
  void read_ledgers() {
    gather_results(ranks_, [&] {
      if (ranks_.rank != 0) return std::string();
      recorded_ = trainer::read_ledgers(request_.run);
      if (recorded_[0].steps.contains(request_.step)) return std::string();
      const int64_t last = recorded_[0].steps.empty() ? 0 : recorded_[0].steps.rbegin()->first;
      throw Error(ExitCode::storage, request_.run + "/ledger has no step " + std::to_string(request_.step) +
                                         "; the last that was recorded is " + std::to_string(last));
    });
  }

  int64_t find_start() const {
    return std::stoll(gather_results(ranks_, [&] {
      if (ranks_.rank != 0) return std::string();
      if (request_.from) return std::to_string(*request_.from);
      const std::vector<int64_t> steps = trainer::list_checkpoints(checkpoints());  // newest first
      const auto before = std::ranges::find_if(steps, [&](int64_t step) { return step < request_.step; });
      return std::to_string(before == steps.end() ? 0 : *before);
    })[0]);
  }

  void say(const std::string& text) const {
    if (ranks_.rank == 0) std::printf("%s\n", printable_lines(text).c_str());
  }

  // Returns the first place of all ranks as "rank 1, layer 2, forward: aten::mm (after ...)"; empty if no rank has one.
  // The ranks run the same ops, so the numbers of their entries can be compared.
  std::string first_place(const std::optional<size_t>& first, const std::vector<OpTrace::Entry>& entries) const {
    std::string own;
    if (first) {
      own = std::to_string(*first) + ' ' + (*first < entries.size() ? entries[*first].place : "the end of the step") +
            (*first > 0 ? " (after " + entries[*first - 1].place + ")" : "");
    }
    int64_t least = 0;
    std::string place;
    const std::vector<std::string> all = bootstrap_.gather(own);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty() || (!place.empty() && std::stoll(all[rank]) >= least)) continue;
      least = std::stoll(all[rank]);
      place = "rank " + std::to_string(rank) + ", " + all[rank].substr(all[rank].find(' ') + 1);
    }
    return place;
  }

  ExitCode report(const std::vector<OpTrace::Entry>& expected, const std::vector<OpTrace::Entry>& found, bool faulty) {
    const std::string different = first_place(first_difference(expected, found), found);
    const std::string nan = first_place(first_nan(found), found);
    const std::string step = "step " + std::to_string(request_.step);
    if (!nan.empty()) say("the first NaN: " + step + ", " + nan);
    if (different.empty()) {
      say("equal: both runs of " + step + " agree in all " + std::to_string(found.size()) + " outputs of rank 0" +
          (faulty ? "" : "; fault.do is none, so both were the same"));
      return ExitCode::done;
    }
    say("different: " + step + ", " + different);
    return ExitCode::numerics;
  }

  const Request& request_;
  sharding::Bootstrap& bootstrap_;
  const Ranks ranks_;
  const int64_t from_;                     // the step after which the replay begins
  std::vector<trainer::Ledger> recorded_;  // on rank 0
};

ExitCode run(LoadedConfig loaded, const Request& request) {
  sharding::Bootstrap bootstrap({.timeout_seconds = loaded.config.run.timeout});
  trainer::start_rank(loaded, bootstrap);
  Replay replay(request, bootstrap);
  return request.locate ? replay.locate(loaded) : replay.compare(loaded);
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  using namespace strata;
  Request request;
  CLI::App app("Trains a step of a run again and compares data, loss, gradient norm and weights with the run's ledger.",
               "replay");
  app.add_option("RUN", request.run, "folder of the run")->required();
  app.add_option("OVERRIDES", request.overrides, "a.b.c=value ..., of the keys that may change when a run is resumed");
  app.add_option("--step", request.step, "the last step that is compared")->required()->check(CLI::PositiveNumber);
  app.add_option("--from", request.from,
                 "step of the checkpoint to begin from; 0: the initial weights; default: the nearest before the step")
      ->check(CLI::NonNegativeNumber);
  app.add_flag(
      "--locate", request.locate,
      "run the step twice, with the fault of the configuration and without, and name the first op that differs");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
  if (request.from && *request.from >= request.step) {
    std::fprintf(stderr, "--from is %lld, expected a step before %lld, the one of --step\n",
                 static_cast<long long>(*request.from), static_cast<long long>(request.step));
    return static_cast<int>(ExitCode::configuration);
  }
  std::vector<std::string> overrides = {request.locate ? "run.deterministic=true" : "fault={do: none}"};
  overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
  std::optional<LoadedConfig> loaded;
  try {
    loaded = trainer::load_run_config(request.run + "/resolved.yaml", overrides);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(error.code());
  }
  return trainer::exit_code_of([&] { return run(*loaded, request); });
}
