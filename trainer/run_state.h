// SPDX-License-Identifier: MIT
// What a checkpoint holds of a run: the shards of weights and moments, and where the run was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model/sharded_model.h"
#include "trainer/optimizer.h"

namespace strata::trainer {

// Besides tensors. The position in the data is the step: samples are a function of (seed, step).
struct RunState {
  int64_t step = 0;
  int64_t updates = 0;        // steps whose update was not left out
  std::string configuration;  // resolved, as YAML
  std::string data;           // fingerprint
  std::string weights_sha256;
};
std::string to_text(const RunState& state);
// Throws Error(storage) when the text is not what to_text writes.
RunState parse_run_state(const std::string& text);

// `<parameter>/master`, `/first_moment`, `/second_moment` and, where it is kept, `/average` of this rank, as views.
// With replicas only the first one writes: on the others (`empty`) every piece is empty.
std::vector<TensorPiece> pieces_of(const ShardedModel& model, Optimizer& optimizer, bool empty);

}  // namespace strata::trainer
