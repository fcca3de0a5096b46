// SPDX-License-Identifier: MIT
#include "trainer/run_saves.h"

#include <chrono>
#include <utility>

#include "base/errors.h"
#include "sharding/process/failure.h"
#include "trainer/run_state.h"

namespace strata::trainer {

RunSaves::RunSaves(const Parts& parts, const Ranks& ranks, const CheckpointWriter::Options& options)
    : parts_(parts), writer_(options, ranks) {
  // Pinned memory is allocated here, so that no step waits for the driver. A run that saves only at its end allocates
  // the memory there.
  if (parts_.checkpoint.every > 0) writer_.reserve(pieces());
}

// Only the first replica writes.
std::vector<TensorPiece> RunSaves::pieces() const {
  Step& step = parts_.step;
  return pieces_of(step.model(), step.optimizer(), /*empty=*/step.mesh().replicate->rank() > 0);
}

void RunSaves::save() {
  const int64_t step = parts_.step.number();
  const auto begin = std::chrono::steady_clock::now();
  const auto milliseconds = [begin] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  SaveRecord record{.step = step};
  if (writer_.in_flight()) {
    if (parts_.metrics != nullptr) {
      parts_.metrics->note("checkpoint of step " + std::to_string(step) +
                           ": training waits, because the one before is not on the disk yet");
    }
    finish(/*wait=*/true, /*is_last=*/false);
    record.waited = milliseconds();
  }
  sharding::set_position(step, "checkpoint");
  const PhaseTimer::Scope scope(parts_.step.timer(), Phase::checkpoint);
  parts_.session.heartbeat();
  RunState now{step, parts_.step.updates(), parts_.resolved, parts_.data_fingerprint, {}, parts_.step.loss_scale()};
  const auto text_of_state = [state = std::move(now)](const std::string& weights_sha256) mutable {
    state.weights_sha256 = weights_sha256;
    return to_text(state);
  };
  writer_.start_save(step, pieces(), text_of_state);
  if (writer_.copies()) parts_.step.hold_updates_for(*writer_.copies());
  record.milliseconds = milliseconds();
  if (parts_.metrics != nullptr) parts_.metrics->record_save_begin(record);
}

void RunSaves::finish(bool wait, bool is_last) {
  if (!writer_.in_flight()) return;
  const int64_t step = parts_.step.number();
  const PhaseTimer::Scope scope(parts_.step.timer(), Phase::checkpoint);
  const std::optional<SaveOutcome> outcome =
      wait ? writer_.finish([this] { parts_.session.heartbeat(); }) : writer_.try_finish();
  if (!outcome) return;
  if (Metrics* const metrics = parts_.metrics; metrics != nullptr) {
    if (!outcome->message.empty()) metrics->warn(outcome->message);
    if (outcome->committed) {
      parts_.ledger.weights(outcome->step, outcome->weights_sha256);
      metrics->record_weights(outcome->step, outcome->weights_sha256);
      metrics->record_checkpoint_written(step, outcome->step);
    }
  }
  if (!outcome->committed && outcome->step == step && is_last) {
    throw Error(ExitCode::storage, "the last checkpoint could not be saved: " + outcome->message);
  }
}

void RunSaves::finish_before_error() {
  try {
    finish(/*wait=*/true, /*is_last=*/false);
  } catch (const Error& error) {
    // All ranks catch this error together. It is only a warning here, because the run ends for another cause, which is
    // reported.
    if (error.code() != ExitCode::storage) throw;
    if (parts_.metrics != nullptr) parts_.metrics->warn(error.what());
  }
}

}  // namespace strata::trainer
