// SPDX-License-Identifier: MIT
// The content of a checkpoint: the shards of weights and moments, and the state of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model/sharded_model.h"
#include "trainer/optimizer.h"
#include "trainer/step/loss_scale.h"

namespace strata::trainer {

// The part of the state that is not tensors. The position in the data is the step, because samples are a function of
// (seed, step).
struct RunState {
  int64_t step = 0;
  int64_t updates = 0;        // steps whose update was not skipped
  std::string configuration;  // resolved.yaml
  std::string data;           // fingerprint of the data
  std::string weights_sha256;
  std::optional<LossScale::State> loss_scale = {};  // nothing unless the loss is scaled
};
std::string to_text(const RunState& state);
// Throws Error (storage) if to_text did not write this text, also if a count is negative, a fraction or too large.
RunState parse_run_state(const std::string& text);

// Returns views of the tensors of this rank: `<parameter>/master`, `/first_moment`, `/second_moment` and, if averages
// are kept, `/average`. Only the first replica writes them. On the other replicas (`empty`) every piece is empty. All
// ranks hold the same `<module>/amax_history` of delayed scales, so only the first rank of a replica has pieces of it.
std::vector<TensorPiece> pieces_of(const ShardedModel& model, const Optimizer& optimizer, bool empty);

}  // namespace strata::trainer
