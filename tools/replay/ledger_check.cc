// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "tools/replay/modes.h"
#include "trainer/ledger/ledger_comparison.h"

namespace strata::tools {
namespace {

// The relative difference that is allowed if bits cannot be equal, for each step since the start. In float32, another
// number of ranks changes the first loss by less than 1e-6, and each update makes this difference larger. 2^-8 is the
// rounding of bfloat16; float16 rounds less.
constexpr double kRoundingFloat32 = 1.0 / (1 << 16), kRoundingOf16Bits = 1.0 / (1 << 8);

double rounding_of(const trainer::PrecisionConfig& precision) {
  const bool single = precision.compute == trainer::FloatType::float32 && !precision.is_mixed();
  return single ? kRoundingFloat32 : kRoundingOf16Bits;
}

ExitCode code_of(trainer::Verdict verdict) {
  if (verdict == trainer::Verdict::data_differ) return ExitCode::data;
  return verdict == trainer::Verdict::numbers_differ ? ExitCode::numerics : ExitCode::done;
}

}  // namespace

ExitCode compare_with_ledger(const Replay& replay, const trainer::LoadedConfig& loaded) {
  replay.say("replays step " + std::to_string(replay.from() + 1) + " to " + std::to_string(replay.step()) +
             (replay.from() > 0 ? ", from the checkpoint of step " + std::to_string(replay.from())
                                : ", from the initial weights"));
  const std::vector<std::string> own = replay.session().gather(replay.train(loaded.config, nullptr));
  trainer::Comparison comparison;
  const std::string code = gather_results(replay.ranks(), [&] {
    if (replay.ranks().rank != 0) return std::string();
    std::vector<trainer::Ledger> replayed;
    for (const std::string& ledger : own) replayed.push_back(trainer::parse_ledger(ledger));
    comparison = trainer::compare(
        replay.recorded(), replayed,
        {.after = replay.from(), .last = replay.step(), .rounding = rounding_of(loaded.config.precision)});
    return std::to_string(static_cast<int>(code_of(comparison.verdict)));
  })[0];
  replay.say(comparison.text);
  return static_cast<ExitCode>(std::stoi(code));
}

}  // namespace strata::tools
