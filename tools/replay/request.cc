// SPDX-License-Identifier: MIT
#include "tools/replay/request.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/errors.h"
#include "base/text/printable.h"
#include "tools/replay/saved_layer.h"

namespace strata::tools {
namespace {

// Returns what is wrong with options that are right one by one, or an empty text.
std::string contradiction(const Request& request) {
  if (request.is_layer()) {
    const bool none = !request.step && !request.from && !request.locate && !request.finds_nonfinite;
    return none ? ""
                : request.run +
                      " is a saved layer, which is run as it is: leave out --step, --from, --locate and "
                      "--at-nonfinite";
  }
  if (request.locate && request.finds_nonfinite) return "--locate and --at-nonfinite exclude each other";
  if (!request.step && !request.finds_nonfinite) return "--step is required, or --at-nonfinite";
  if (request.step && request.from && *request.from >= *request.step) {
    return "--from is " + std::to_string(*request.from) + ", expected a step before " + std::to_string(*request.step) +
           ", the one of --step";
  }
  return "";
}

}  // namespace

bool Request::is_layer() const {
  std::error_code problem;  // a folder that cannot be read is reported when its configuration is read
  return std::filesystem::exists(run + "/" + kSavedLayerFacts, problem);
}

std::optional<Request> parse_request(int count, char** arguments, int& exit_code) {
  Request request;
  CLI::App app(
      "Trains a step of a run again and compares data, loss, gradient norm and weights with the run's ledger. Or runs "
      "a layer alone that --at-nonfinite has saved.",
      "replay");
  app.add_option("RUN", request.run, "folder of the run, or of a layer that --at-nonfinite has saved")->required();
  app.add_option("OVERRIDES", request.overrides, "a.b.c=value ..., of the keys that may change when a run is resumed");
  app.add_option("--step", request.step, "the last step that is compared")->check(CLI::PositiveNumber);
  app.add_option("--from", request.from,
                 "step of the checkpoint to begin from; 0: the initial weights; default: the nearest before the step")
      ->check(CLI::NonNegativeNumber);
  app.add_flag(
      "--locate", request.locate,
      "run the step twice, with the fault of the configuration and without, and name the first op that differs");
  app.add_flag("--at-nonfinite", request.finds_nonfinite,
               "run the step whose loss or gradient was not finite, and save the layer that made the first such value "
               "as RUN/nonfinite-step-N; --step is the last such step of the ledger by default");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
    return {};
  }
  const std::string wrong = contradiction(request);
  if (wrong.empty()) return request;
  std::fprintf(stderr, "%s\n", printable_lines(wrong).c_str());
  exit_code = static_cast<int>(ExitCode::configuration);
  return {};
}

}  // namespace strata::tools
