// SPDX-License-Identifier: MIT
// replay RUN --step N: trains a step of a run again, from a checkpoint before it, and compares it with the run's
// ledger. replay RUN --at-nonfinite: saves the layer that made the first value that is not finite. replay
// RUN/nonfinite-step-N: runs that layer alone.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/text/printable.h"
#include "sharding/rank_session.h"
#include "tools/programs.h"
#include "tools/replay/modes.h"
#include "tools/replay/replay.h"
#include "tools/replay/request.h"
#include "trainer/start_rank.h"
#include "trainer/tasks/load_run_config.h"

namespace strata::tools {
namespace {

ExitCode run(trainer::LoadedConfig loaded, const Request& request) {
  sharding::RankSession session({.timeout_seconds = loaded.config.run.timeout});
  trainer::start_rank(loaded, session);
  const Replay replay(request, session);
  if (request.finds_nonfinite) return save_nonfinite_layer(replay, loaded);
  return request.locate ? locate_fault(replay, loaded) : compare_with_ledger(replay, loaded);
}

int run_request(const Request& request) {
  if (request.is_layer()) {
    return trainer::exit_code_of([&] { return run_saved_layer(request.run, request.overrides); });
  }
  // Other replays leave out the fault that the configuration injects.
  const bool with_fault = request.locate || request.finds_nonfinite;
  std::vector<std::string> overrides = {with_fault ? "run.deterministic=true" : "fault={kind: none}"};
  overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
  std::optional<trainer::LoadedConfig> loaded;
  try {
    loaded = trainer::load_run_config(request.run + "/resolved.yaml", overrides);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(error.code());
  }
  return trainer::exit_code_of([&] { return run(*loaded, request); });
}

}  // namespace
}  // namespace strata::tools

int strata::programs::replay_main(int count, char** arguments) {
  int exit_code = 0;
  const auto request = strata::tools::parse_request(count, arguments, exit_code);
  return request ? strata::tools::run_request(*request) : exit_code;
}
