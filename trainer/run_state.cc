// SPDX-License-Identifier: MIT
#include "trainer/run_state.h"

#include <nlohmann/json.hpp>
#include <optional>

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

}  // namespace

std::string to_text(const RunState& state) {
  return nlohmann::json{{"step", state.step},
                        {"updates", state.updates},
                        {"configuration", state.configuration},
                        {"data", state.data},
                        {"weights_sha256", state.weights_sha256}}
      .dump();
}

RunState parse_run_state(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {count_at(json, "step"), count_at(json, "updates"), json.at("configuration").get<std::string>(),
            json.at("data").get<std::string>(), json.at("weights_sha256").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::storage, kNoState + std::string(error.what()));
  }
}

std::vector<TensorPiece> pieces_of(const ShardedModel& model, Optimizer& optimizer, bool empty) {
  std::vector<TensorPiece> pieces;
  for (size_t i = 0; i < model.groups().size(); ++i) {
    auto& group = *model.groups()[i];
    const Optimizer::Moments& moments = optimizer.moments(i);
    for (const auto& [state, shard] :
         {std::pair(kMaster, group.master()), std::pair("/first_moment", moments.first),
          std::pair("/second_moment", moments.second), std::pair(kAverage, moments.average)}) {
      if (!shard.defined()) continue;
      // Every rank names every tensor, so that all ranks find a difference to the checkpoint.
      for (const auto& entry : group.layout().entries()) {
        pieces.push_back({entry.name + state, entry.shape, 0, shard.narrow(0, 0, 0)});
      }
      if (empty) continue;
      const size_t first = pieces.size() - group.layout().entries().size();
      group.for_each_piece([&](const auto& entry, int64_t in_parameter, int64_t in_shard, int64_t count) {
        const auto index = static_cast<size_t>(&entry - group.layout().entries().data());
        pieces[first + index].offset = in_parameter;
        pieces[first + index].data = shard.narrow(0, in_shard, count);
      });
    }
  }
  return pieces;
}

}  // namespace strata::trainer
