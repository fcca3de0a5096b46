// SPDX-License-Identifier: MIT
#include "trainer/run_state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_count.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace strata::trainer {
namespace {

constexpr char kNoState[] = "the state in the checkpoint is not one of a run: ";

int64_t count_at(const nlohmann::json& json, const char* key) {
  const auto& value = json.at(key);
  if (const std::optional<int64_t> count = json_count(value)) return *count;
  throw Error(ExitCode::storage,
              std::string(kNoState) + key + " is " + value.dump() + ", expected a whole number from 0 to 2^63 - 1");
}

// The device holds the scale in float and the count in int32.
LossScale::State loss_scale_at(const nlohmann::json& json) {
  const auto& scale = json.at("scale");
  const double value = scale.is_number() ? scale.get<double>() : 0;
  if (value > std::numeric_limits<float>::max() || !(static_cast<float>(value) > 0)) {
    throw Error(ExitCode::storage,
                std::string(kNoState) + "scale is " + scale.dump() + ", expected a number of float32 above 0");
  }
  const int64_t steps = count_at(json, "finite_steps");
  if (steps > std::numeric_limits<int32_t>::max()) {
    throw Error(ExitCode::storage,
                std::string(kNoState) + "finite_steps is " + std::to_string(steps) + ", expected at most 2^31 - 1");
  }
  return {value, steps};
}

}  // namespace

std::string to_text(const RunState& state) {
  nlohmann::json json = {{"step", state.step},
                         {"updates", state.updates},
                         {"configuration", state.configuration},
                         {"data", state.data},
                         {"weights_sha256", state.weights_sha256}};
  if (state.loss_scale) {
    json["loss_scale"] = {{"scale", state.loss_scale->scale}, {"finite_steps", state.loss_scale->finite_steps}};
  }
  return json.dump();
}

RunState parse_run_state(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    RunState state = {count_at(json, "step"), count_at(json, "updates"), json.at("configuration").get<std::string>(),
                      json.at("data").get<std::string>(), json.at("weights_sha256").get<std::string>()};
    if (json.contains("loss_scale")) state.loss_scale = loss_scale_at(json.at("loss_scale"));
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::storage, kNoState + std::string(error.what()));
  }
}

std::vector<TensorPiece> pieces_of(const ShardedModel& model, const Optimizer& optimizer, bool empty) {
  std::vector<TensorPiece> pieces;
  for (size_t i = 0; i < model.groups().size(); ++i) {
    auto& group = *model.groups()[i];
    const Optimizer::ShardState& kept = optimizer.state_of(i);
    for (const auto& [state, shard] :
         {std::pair(kMaster, group.master()), std::pair("/first_moment", kept.first_moment),
          std::pair("/second_moment", kept.second_moment), std::pair(kAverage, kept.average)}) {
      if (!shard.defined()) continue;
      // Every rank names every tensor, so that all ranks find a difference to the checkpoint.
      for (const auto& entry : group.layout().entries()) {
        pieces.push_back({entry.name + state, entry.shape, 0, shard.narrow(0, 0, 0)});
      }
      if (empty) continue;
      const size_t first = pieces.size() - group.layout().entries().size();
      for (const auto& piece : group.layout().pieces_of_shard(group.shard_rank())) {
        pieces[first + piece.entry].offset = piece.parameter_offset;
        pieces[first + piece.entry].data = shard.narrow(0, piece.shard_offset, piece.count);
      }
    }
  }
  const AmaxHistory& history = model.amax_history();
  const bool none = empty || model.groups().front()->shard_rank() > 0;
  for (const auto& [module, values] : history.histories()) {
    pieces.push_back({module + "/amax_history", {3, history.steps()}, 0, none ? values.narrow(0, 0, 0) : values});
  }
  return pieces;
}

}  // namespace strata::trainer
