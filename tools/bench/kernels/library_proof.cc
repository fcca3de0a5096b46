// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/library_proof.h"

#include <algorithm>
#include <cstdio>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "kernels/level_proof.h"
#include "kernels/load_candidates.h"
#include "kernels/proof/workload_check.h"
#include "tools/bench/kernels/measurement.h"

namespace strata::tools {
namespace {

std::string joined(const auto& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

// Returns the ops of the library that are wanted.
std::vector<std::string_view> load(const std::string& path, const std::vector<std::string>& ops) {
  std::vector<std::string_view> found;
  try {
    found = kernels::load_candidates(path);
  } catch (const c10::ValueError& error) {
    throw Error(ExitCode::configuration, "--library " + kernels::sentence_of(error));
  }
  for (const std::string& op : ops) {
    if (std::ranges::count(found, op)) continue;
    throw Error(ExitCode::configuration, "--op " + op + ": " + path + " has kernels of " + joined(found) + " only");
  }
  if (!ops.empty()) std::erase_if(found, [&](std::string_view op) { return !std::ranges::count(ops, op); });
  return found;
}

std::string sentence(const std::string& start, const kernels::LevelProof& proof) {
  std::string text =
      formatted("%s: %d of %d calls do not agree with the formula", start.c_str(), proof.failed, proof.calls);
  if (proof.failed == 0)
    text = formatted("%s: no call agrees with the formula, %d of %d are refused", start.c_str(), proof.refused,
                     proof.calls);
  for (const std::string& failure : proof.failures) text += "\n  " + failure;
  if (proof.refused > 0) text += "\n  refused: " + proof.refusal;
  return text;
}

}  // namespace

std::vector<std::string_view> prove_library(const std::string& path, const std::vector<std::string>& ops,
                                            const std::vector<at::ScalarType>& dtypes, at::Device device) {
  const std::vector<std::string_view> found = load(path, ops);
  std::string failures;
  for (const std::string_view op : found) {
    for (const at::ScalarType dtype : dtypes) {
      const kernels::LevelProof proof = kernels::prove_level(op, kernels::kLibraryLevel, device.type(), dtype);
      const std::string start = std::string(op) + " " + short_name(dtype) + " library";
      if (!proof.proved()) {
        failures += "\n" + sentence(start, proof);
        continue;
      }
      std::printf("%s: proved by %d calls of %d cases, error %.2f of what is allowed\n", start.c_str(),
                  proof.calls - proof.refused, proof.cases, proof.share);
      if (proof.refused > 0) std::printf("  it refused %d calls: %s\n", proof.refused, proof.refusal.c_str());
      std::fflush(stdout);
    }
  }
  if (failures.empty()) return found;
  throw Error(ExitCode::numerics, path + " is not proved, so nothing is timed" + failures);
}

}  // namespace strata::tools
