// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "tools/replay/modes.h"
#include "tools/replay/nonfinite_search.h"
#include "trainer/tasks/declared_model.h"

namespace strata::tools {
namespace {

std::vector<std::string> names_of_layers(const modules::ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& group : trainer::declared_groups(model)) {
    if (group.role == modules::Role::layer) names.push_back(group.name);
  }
  return names;
}

// Returns the rank that found the earliest place, the lowest of several; -1 if none found one.
int first_rank(const Replay& replay, const NonfiniteSearch& search) {
  const std::vector<std::string> events =
      replay.session().gather(search.found() ? std::to_string(search.found()->event) : "");
  int first = -1;
  for (size_t rank = 0; rank < events.size(); ++rank) {
    if (events[rank].empty()) continue;
    if (first < 0 || std::stoll(events[rank]) < std::stoll(events[first])) first = static_cast<int>(rank);
  }
  return first;
}

// Returns what the rank that found the place has to say. It saves the layer.
std::string save(const Replay& replay, const NonfiniteSearch::Found& found, const std::string& resolved) {
  const std::string step = "step " + std::to_string(replay.step()), rank = std::to_string(replay.ranks().rank);
  const std::string op = found.op.empty() ? "no op of LibTorch made it" : found.op;
  std::string text = "the first value that is not finite: " + step + ", rank " + rank + ", " + found.place + ": " + op;
  if (!found.layer) return text + "\nnothing was saved: " + found.why_not;
  SavedLayer layer = *found.layer;
  layer.step = replay.step();
  layer.rank = replay.ranks().rank;
  layer.ranks = replay.ranks().size;
  const std::string folder = replay.folder() + "/nonfinite-step-" + std::to_string(replay.step());
  write_layer(folder, layer, resolved);
  return text + "\nsaved: tools/strata replay " + folder + " runs the layer alone";
}

}  // namespace

ExitCode save_nonfinite_layer(const Replay& replay, const trainer::LoadedConfig& loaded) {
  replay.say("replays step " + std::to_string(replay.from() + 1) + " to " + std::to_string(replay.step()) +
             " and looks at the last one");
  trainer::TrainerConfig config = loaded.config;
  config.cuda_graph = trainer::CudaGraph::off;  // the ops of a captured step cannot be seen
  NonfiniteSearch search(names_of_layers(config.model));
  const trainer::Ledger ledger = trainer::parse_ledger(replay.train(config, &search));
  if (ledger.steps.at(replay.step()).overflowed) {
    replay.say("loss scaling skipped step " + std::to_string(replay.step()) +
               ", because it took gradients that are not finite for an overflow: usually no layer is at fault");
  }
  const int first = first_rank(replay, search);
  if (first < 0) {
    const std::string all =
        "every output of a layer and every gradient of step " + std::to_string(replay.step()) + " is finite";
    // The sum of the squares of finite gradients may be infinite, and so may the loss.
    if (!is_finite(ledger.steps.at(replay.step()))) {
      replay.say("nothing was saved: " + all + ", but its loss or gradient norm is not");
      return ExitCode::numerics;
    }
    replay.say("finite: " + all + ", so what the run saw does not repeat");
    return ExitCode::done;
  }
  const std::vector<std::string> texts = gather_slow_results(replay.ranks(), "saving the layer", [&] {
    return replay.ranks().rank == first ? save(replay, *search.found(), loaded.resolved()) : std::string();
  });
  replay.say(texts[static_cast<size_t>(first)]);
  return ExitCode::numerics;
}

}  // namespace strata::tools
