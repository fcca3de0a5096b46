// SPDX-License-Identifier: MIT
#include "trainer/prediction/out_of_memory.h"

#include <algorithm>

#include "base/text/formatted.h"

namespace strata::trainer {
namespace {

constexpr size_t kMostRemedies = 3;

std::string row(const std::string& name, int64_t bytes) {
  return formatted("\n  %-38s %10.2f GiB", name.c_str(), static_cast<double>(bytes) / (1 << 30));
}

struct Remedy {
  std::string text;
  std::optional<TrainerConfig> changed;  // the run with the remedy; empty if more than one value would change
};

// A micro-batch divided by this factor still divides the batch.
int64_t smallest_factor(int64_t number) {
  int64_t factor = 2;
  while (number % factor != 0) ++factor;
  return factor;
}

// The next larger sharding.sequence that fits a run of `all` ranks; nothing if none does.
std::optional<int64_t> more_ranks_for_a_sequence(const modules::ModelConfig& run_model, int64_t now, int64_t all) {
  // Items of a sample: for a transformer, the tokens of a sequence; for other models 1, which no number of ranks
  // divides.
  const int64_t items = modules::items_per_sample(run_model);
  for (int64_t ranks = 2 * now; ranks <= all; ranks += now) {
    if (all % ranks == 0 && items % (2 * ranks) == 0) return ranks;
  }
  return std::nullopt;
}

std::vector<Remedy> remedies(const TrainerConfig& config) {
  std::vector<Remedy> all;
  const auto add = [&](bool applies, const std::string& text, const std::function<void(TrainerConfig&)>& change) {
    if (!applies) return;
    all.push_back({text, std::nullopt});
    if (change) change(all.back().changed.emplace(config));
  };
  const bool sharded = config.sharding.ranks_per_copy(config.run.ranks) > 1;
  if (config.micro_batch > 1) {
    const int64_t factor = smallest_factor(config.micro_batch), smaller = config.micro_batch / factor;
    add(true,
        "micro_batch=" + std::to_string(smaller) + ": " +
            (factor == 2 ? "half" : "1/" + std::to_string(factor) + " of") +
            " the activations; the same results by accumulation",
        [&](TrainerConfig& changed) { changed.micro_batch = smaller; });
  }
  add(sharded && !config.sharding.reshard_after_forward,
      "sharding.reshard_after_forward=true: weights of blocks take turns in a few slots",
      [](TrainerConfig& changed) { changed.sharding.reshard_after_forward = true; });
  add(!sharded && config.run.ranks > 1, "sharding.strategy=full: each rank holds a part of the weights and moments",
      [](TrainerConfig& changed) { changed.sharding.strategy = sharding::Strategy::full; });
  const int64_t layers = modules::layer_count(config.model);
  Recompute least_recomputed = Recompute::full, most_recomputed = Recompute::none;
  for (int64_t i = 0; i < layers; ++i) {
    least_recomputed = std::min(least_recomputed, config.gradient_checkpointing.of(i));
    most_recomputed = std::max(most_recomputed, config.gradient_checkpointing.of(i));
  }
  add(least_recomputed == Recompute::none && most_recomputed != Recompute::full,
      "gradient_checkpointing=selective: outputs of norms and activations are not kept, for a few percent more time",
      [](TrainerConfig& changed) { changed.gradient_checkpointing = {Recompute::selective}; });
  add(config.precision.compute == FloatType::float32, "precision.compute=bfloat16: half the activations",
      [](TrainerConfig& changed) { changed.precision.compute = FloatType::bfloat16; });
  add(least_recomputed != Recompute::full,
      "gradient_checkpointing=full: only the inputs of blocks are kept, for a third more computation",
      [](TrainerConfig& changed) { changed.gradient_checkpointing = {Recompute::full}; });
  const std::optional<int64_t> split =
      more_ranks_for_a_sequence(config.model, config.sharding.sequence, config.run.ranks);
  if (split) {
    add(true, "sharding.sequence=" + std::to_string(*split) + ": ranks share sequences and their activations",
        [&](TrainerConfig& changed) { changed.sharding.sequence = *split; });
  }
  add(true, "more ranks: each holds a smaller part", nullptr);
  return all;
}

}  // namespace

std::string what_needs_less(const TrainerConfig& config, const NoteOnChange& note) {
  std::string text = "what needs less, the cheapest first:";
  size_t count = 0;
  for (const Remedy& remedy : remedies(config)) {
    const std::optional<std::string> noted = note && remedy.changed ? note(*remedy.changed) : "";
    if (!noted || count == kMostRemedies) continue;
    ++count;
    text += "\n  " + remedy.text + (noted->empty() ? "" : " (" + *noted + ")");
  }
  return text;
}

std::string out_of_memory_report(const std::vector<MemoryClass>& classes, const DeviceMemory& memory,
                                 const std::string& request) {
  std::string text = "the memory of the GPU does not suffice: " + request;
  int64_t sum = 0;
  for (const MemoryClass& part : classes) {
    text += row(part.name, part.bytes);
    sum += part.bytes;
  }
  text += row("activations and what ops need besides", std::max<int64_t>(0, memory.allocated - sum));
  text += row("reserved, but in no tensor", memory.reserved - memory.allocated);
  return text + row("of the GPU", memory.total);
}

}  // namespace strata::trainer
