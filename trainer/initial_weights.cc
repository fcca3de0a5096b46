// SPDX-License-Identifier: MIT
#include "trainer/initial_weights.h"

#include <set>
#include <string>

#include "base/errors.h"
#include "base/text/joined.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights_differences.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata::trainer {
namespace {

using sharding::FlatLayout;

Shapes shapes_of(const WeightsFolder& folder) {
  Shapes shapes;
  for (const std::string& name : folder.names()) shapes.emplace_back(name, folder.find(name)->shape);
  return shapes;
}

Shapes shapes_of(const ShardedModel& model) {
  Shapes shapes;
  for (const auto* group : model.groups()) {
    for (const FlatLayout::Entry& entry : group->layout().entries()) shapes.emplace_back(entry.name, entry.shape);
  }
  return shapes;
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
    const std::string problem = weights_differences(shapes_of(folder), shapes_of(model));
    if (!problem.empty()) {
      throw Error(ExitCode::configuration, "checkpoint.initial_weights " + path + " does not fit the model:" + problem +
                                               "\nfolders of Hugging Face are converted by: tools/strata import");
    }
    for (auto* group : model.groups()) {
      const at::Tensor shard = group->master().cpu();
      group->for_each_piece(
          [&](const FlatLayout::Entry& entry, int64_t parameter_offset, int64_t shard_offset, int64_t count) {
            shard.narrow(0, shard_offset, count).copy_(folder.read(entry.name, parameter_offset, count));
          });
      group->master().copy_(shard);
      if (group->compute_copy().defined()) group->compute_copy().copy_(shard);
    }
    types = types_of_16_bits(folder);
    return std::string();
  });
  return types.empty()
             ? ""
             : "checkpoint.initial_weights: weights of " + types + " become float32 masters, and no value changes";
}

}  // namespace strata::trainer
