// SPDX-License-Identifier: MIT
#include "trainer/initial_weights.h"

#include <set>

#include "base/errors.h"
#include "base/text/joined.h"
#include "base/text/nearest_name.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata::trainer {
namespace {

using sharding::FlatLayout;

// Returns a line for each parameter that is missing, has another shape, or is unknown to the model.
std::string differences(const WeightsFolder& folder, const ShardedModel& model) {
  constexpr int kMostLines = 20;
  int count = 0;
  std::string text;
  const auto add = [&](const std::string& line) {
    if (++count <= kMostLines) text += "\n  " + line;
  };
  const std::vector<std::string> names = folder.names();
  std::set<std::string> known;
  for (const auto* group : model.groups()) {
    for (const FlatLayout::Entry& entry : group->layout().entries()) {
      known.insert(entry.name);
      const SafetensorsEntry* stored = folder.find(entry.name);
      if (stored == nullptr) {
        // Comparing a name with 100,000 others takes about a second, so it is not done for lines that nobody sees.
        add(entry.name + ": missing" + (count < kMostLines ? did_you_mean(nearest_name(entry.name, names)) : ""));
      } else if (stored->shape != entry.shape) {
        add(entry.name + ": " + shape_text(stored->shape) + " there, the model has " + shape_text(entry.shape));
      }
    }
  }
  for (const std::string& name : names) {
    if (!known.contains(name)) add(printable(name) + ": the model has no such parameter");
  }
  if (count > kMostLines) text += "\n  and " + std::to_string(count - kMostLines) + " more";
  return text;
}

// Returns the types of the weights that are no float32, such as "BF16 and F16", or "".
std::string types_of_16_bits(const WeightsFolder& folder) {
  std::set<std::string> types;
  for (const std::string& name : folder.names()) types.insert(folder.find(name)->dtype);
  types.erase("F32");
  return joined(types, " and ");
}

}  // namespace

std::string load_initial_weights(const std::string& path, ShardedModel& model, const Ranks& ranks) {
  // Masters are float32, so no value changes.
  std::string types;
  gather_results(ranks, [&] {
    const WeightsFolder folder(path);
    const std::string problem = differences(folder, model);
    if (!problem.empty()) {
      throw Error(ExitCode::configuration, "checkpoint.initial_weights " + path + " does not fit the model:" + problem +
                                               "\nfolders of Hugging Face are converted by: tools/strata import");
    }
    for (auto* group : model.groups()) {
      const at::Tensor shard = group->master().cpu();
      group->for_each_piece([&](const FlatLayout::Entry& entry, int64_t in_parameter, int64_t in_shard, int64_t count) {
        shard.narrow(0, in_shard, count).copy_(folder.read(entry.name, in_parameter, count));
      });
      group->master().copy_(shard);
      if (group->compute_copy().defined()) group->compute_copy().copy_(shard);
    }
    types = types_of_16_bits(folder);
    return std::string();
  });
  return types.empty() ? ""
                       : "checkpoint.initial_weights: weights of " + types + " become float32 masters, without a loss";
}

}  // namespace strata::trainer
