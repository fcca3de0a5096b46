// SPDX-License-Identifier: MIT
#include "tools/replay/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/errors.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/ledger/run_facts.h"
#include "trainer/resume.h"
#include "trainer/step.h"
#include "trainer/weights_hash.h"

namespace strata::tools {

using trainer::Step;

Replay::Replay(const Request& request, sharding::RankSession& session)
    : request_(request),
      session_(session),
      ranks_{session.rank(), session.ranks(), [&](const std::string& text) { return session.gather(text); }},
      step_(find_step()),
      from_(find_start()) {}

std::string Replay::train(trainer::TrainerConfig config, trainer::StepObserver* observer) const {
  config.profile.steps.reset();
  // An observer reads the values of complete weights. Gathered as codes, they would give the same bits.
  if (observer != nullptr) config.sharding.gather_format = sharding::GatherFormat::compute;
  config.checkpoint.resume = from_ > 0 ? trainer::Resume::require : trainer::Resume::never;
  Step step(
      config, session_, [](const std::string&) {}, observer);
  const std::string data = step.task().data_fingerprint();
  session_.require_equal("data", data);
  trainer::FindOptions from{.folder = checkpoints()};
  if (from_ > 0) from.step = from_;
  const trainer::Beginning beginning = begin_run(config, from, step, ranks_, data);
  const trainer::Facts facts = run_facts(config, data, session_.device());
  std::string ledger = records_of(trainer::LedgerStart{.after = from_, .facts = facts}) +
                       trainer::record_of_weights(from_, beginning.weights_sha256);
  while (step.number() < step_) {
    if (observer != nullptr && step.number() + 1 == step_) observer->arm();
    step.queue_next();
    const int64_t number = step.number(), every = config.checkpoint.every;
    const bool hashes = number == step_ || (every > 0 && number % every == 0);
    while (const std::optional<trainer::StepResult> result = step.next_result(/*all=*/hashes)) {
      ledger += record_of(trainer::LedgerStep{.step = result->step,
                                              .data = step.data_hash(result->step),
                                              .loss = result->loss,
                                              .gradient_norm = result->gradient_norm,
                                              .loss_of_rank = result->loss_of_rank,
                                              .squares_of_rank = result->squares_of_rank,
                                              .overflowed = result->overflowed > 0});
    }
    if (hashes) ledger += trainer::record_of_weights(number, weights_sha256(step.model(), *step.mesh().shard));
    session_.end_step();
  }
  session_.pause_watchdog();
  return ledger;
}

void Replay::say(const std::string& text) const {
  if (ranks_.rank == 0) std::printf("%s\n", printable_lines(text).c_str());
}

int64_t Replay::find_step() {
  return std::stoll(gather_results(ranks_, [&] {
    if (ranks_.rank != 0) return std::string();
    if (request_.locate) return std::to_string(*request_.step);  // both runs are made here: it reads no ledger
    recorded_ = trainer::read_ledgers(request_.run);
    if (!request_.step) {
      if (const auto step = step_that_was_not_finite(recorded_[0])) return std::to_string(*step);
      const auto skipped =
          std::ranges::count_if(recorded_[0].steps, [](const auto& numbered) { return numbered.second.overflowed; });
      throw Error(ExitCode::storage, request_.run + "/ledger has no step whose loss or gradient norm is not finite" +
                                         (skipped == 0 ? ""
                                                       : ", except " + std::to_string(skipped) +
                                                             " that loss scaling skipped; --step names one of them"));
    }
    if (recorded_[0].steps.contains(*request_.step)) return std::to_string(*request_.step);
    const int64_t last = recorded_[0].steps.empty() ? 0 : recorded_[0].steps.rbegin()->first;
    throw Error(ExitCode::storage, request_.run + "/ledger has no step " + std::to_string(*request_.step) +
                                       "; the last that was recorded is " + std::to_string(last));
  })[0]);
}

int64_t Replay::find_start() const {
  return std::stoll(gather_results(ranks_, [&] {
    if (ranks_.rank != 0) return std::string();
    if (request_.from && *request_.from >= step_) {
      throw Error(ExitCode::configuration,
                  "--from is " + std::to_string(*request_.from) + ", expected a step before " + std::to_string(step_));
    }
    if (request_.from) return std::to_string(*request_.from);
    const std::vector<int64_t> steps = trainer::list_checkpoints(checkpoints());  // newest first
    const auto before = std::ranges::find_if(steps, [&](int64_t step) { return step < step_; });
    return std::to_string(before == steps.end() ? 0 : *before);
  })[0]);
}

bool is_finite(const trainer::LedgerStep& step) {
  return std::isfinite(step.loss) && std::isfinite(step.gradient_norm);
}

std::optional<int64_t> step_that_was_not_finite(const trainer::Ledger& ledger) {
  std::optional<int64_t> first;
  for (auto step = ledger.steps.rbegin(); step != ledger.steps.rend(); ++step) {
    if (!is_finite(step->second) && !step->second.overflowed) {
      first = step->first;
    } else if (first) {
      break;
    }
  }
  return first;
}

}  // namespace strata::tools
