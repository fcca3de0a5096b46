// SPDX-License-Identifier: MIT
#include "trainer/initial_weights.h"

#include "base/errors.h"
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

}  // namespace

void load_initial_weights(const std::string& path, ShardedModel& model, const Ranks& ranks) {
  gather_results(ranks, [&] {
    const WeightsFolder folder(path);
    const std::string problem = weights_differences(shapes_of(folder), shapes_of(model));
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
    return std::string();
  });
}

}  // namespace strata::trainer
