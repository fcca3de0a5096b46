// SPDX-License-Identifier: MIT
#include "trainer/out_of_memory.h"

#include <algorithm>
#include <cstdio>

namespace strata::trainer {
namespace {

constexpr size_t kMostRemedies = 3;

std::string row(const std::string& name, int64_t bytes) {
  char text[128];
  std::snprintf(text, sizeof text, "\n  %-38s %10.2f GiB", name.c_str(), static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::vector<std::string> remedies(const TrainerConfig& config) {
  std::vector<std::string> all;
  const auto add = [&](bool applies, const std::string& remedy) {
    if (applies && all.size() < kMostRemedies) all.push_back(remedy);
  };
  const bool sharded = config.sharding.ranks_per_copy(config.run.ranks) > 1;
  add(config.micro_batch > 1, "micro_batch=" + std::to_string(config.micro_batch / 2) +
                                  ": half the activations; the same results by accumulation");
  add(sharded && !config.sharding.reshard_after_forward,
      "sharding.reshard_after_forward=true: weights of blocks take turns in a few slots");
  add(!sharded && config.run.ranks > 1, "sharding.strategy=full: each rank holds a part of the weights and moments");
  const auto least_recomputed = [&] {
    const int64_t layers = std::visit([](const auto& model) { return model.layers; }, config.model.type);
    Recompute least = Recompute::full;
    for (int64_t i = 0; i < layers; ++i) least = std::min(least, config.gradient_checkpointing.of(i));
    return least;
  }();
  add(least_recomputed == Recompute::none,
      "gradient_checkpointing=selective: outputs of norms and activations are not kept, for a few percent more time");
  add(least_recomputed != Recompute::full,
      "gradient_checkpointing=full: only the inputs of blocks are kept, for a third more computation");
  add(config.precision.compute == FloatType::float32, "precision.compute=bfloat16: half the activations");
  add(true, "more ranks: each holds a smaller part");
  return all;
}

}  // namespace

std::string out_of_memory_report(const TrainerConfig& config, const std::vector<MemoryClass>& classes,
                                 const DeviceMemory& memory, const std::string& request) {
  std::string text = "the memory of the GPU does not suffice: " + request;
  int64_t sum = 0;
  for (const MemoryClass& part : classes) {
    text += row(part.name, part.bytes);
    sum += part.bytes;
  }
  text += row("activations and what ops need besides", std::max<int64_t>(0, memory.allocated - sum));
  text += row("reserved, but in no tensor", memory.reserved - memory.allocated);
  text += row("of the GPU", memory.total);
  text += "\nwhat needs less, the cheapest first:";
  for (const std::string& remedy : remedies(config)) text += "\n  " + remedy;
  return text;
}

}  // namespace strata::trainer
