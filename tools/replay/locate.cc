// SPDX-License-Identifier: MIT
#include <optional>
#include <string>
#include <vector>

#include "tools/replay/modes.h"
#include "trainer/ledger/op_trace.h"

namespace strata::tools {
namespace {

using trainer::OpTrace;

// Returns the first place of all ranks as "rank 1, layer 2, forward: aten::mm (after ...)"; empty if no rank has one.
// The ranks run the same ops, so the numbers of their entries can be compared.
std::string first_place(const Replay& replay, const std::optional<size_t>& first,
                        const std::vector<OpTrace::Entry>& entries) {
  std::string own;
  if (first) {
    own = std::to_string(*first) + ' ' + (*first < entries.size() ? entries[*first].place : "the end of the step") +
          (*first > 0 ? " (after " + entries[*first - 1].place + ")" : "");
  }
  int64_t least = 0;
  std::string place;
  const std::vector<std::string> all = replay.session().gather(own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty() || (!place.empty() && std::stoll(all[rank]) >= least)) continue;
    least = std::stoll(all[rank]);
    place = "rank " + std::to_string(rank) + ", " + all[rank].substr(all[rank].find(' ') + 1);
  }
  return place;
}

ExitCode report(const Replay& replay, const std::vector<OpTrace::Entry>& expected,
                const std::vector<OpTrace::Entry>& found, bool faulty) {
  const std::string different = first_place(replay, first_difference(expected, found), found);
  const std::string nan = first_place(replay, first_nan(found), found);
  const std::string step = "step " + std::to_string(replay.step());
  if (!nan.empty()) replay.say("the first NaN: " + step + ", " + nan);
  if (different.empty()) {
    replay.say("equal: both runs of " + step + " agree in all " + std::to_string(found.size()) + " outputs of rank 0" +
               (faulty ? "" : "; fault.kind is none, so both were the same"));
    return ExitCode::done;
  }
  replay.say("different: " + step + ", " + different);
  return ExitCode::numerics;
}

}  // namespace

ExitCode locate_fault(const Replay& replay, const trainer::LoadedConfig& loaded) {
  const trainer::FaultConfig& fault = loaded.config.fault;
  const auto place = trainer::parse_fault_place(fault.at);
  if (fault.kind != trainer::Fault::none && place && place->step != replay.step()) {
    throw Error(ExitCode::configuration, "fault.at names step " + std::to_string(place->step) +
                                             ", and both runs must reach step " + std::to_string(replay.step()) +
                                             " in the same state; give --step " + std::to_string(place->step));
  }
  trainer::TrainerConfig without = loaded.config;
  without.cuda_graph = trainer::CudaGraph::off;  // the ops of a captured step cannot be seen
  trainer::TrainerConfig with = without;
  without.fault = {};
  OpTrace expected, found;
  replay.train(without, &expected);
  replay.train(with, &found);
  return report(replay, expected.entries(), found.entries(), fault.kind != trainer::Fault::none);
}

}  // namespace strata::tools
