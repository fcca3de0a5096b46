// SPDX-License-Identifier: MIT
// Fuzzes plans of kernels: an accepted plan is the same after it is written and read again.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "tests/fuzz/harness/input_files.h"
#include "tests/fuzz/harness/read_again.h"
#include "trainer/levels/kernel_plan.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "plan.yaml";

void parse(std::string_view bytes) {
  const trainer::KernelPlan plan = trainer::read_kernel_plan(write_input(kFile, bytes));
  // Names of ops, keys and modules are written without quotes, because only real ones are ever written.
  const auto is_name = [](const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return std::islower(c) != 0; });
  };
  const auto are_names = [&](const std::vector<std::string>& all) {
    return std::all_of(all.begin(), all.end(), is_name);
  };
  const bool has_names = std::all_of(plan.measured.begin(), plan.measured.end(),
                                     [&](const trainer::PlanRow& row) {
                                       return is_name(row.op) && (row.key.empty() || is_name(row.key));
                                     }) &&
                         are_names(plan.keep) &&
                         std::all_of(plan.formats.begin(), plan.formats.end(),
                                     [&](const trainer::FormatRow& row) { return are_names(row.modules); });
  if (!has_names) return;
  const std::string written = yaml(plan), path = write_input(kFile, written);
  require(read_again([&] { return yaml(trainer::read_kernel_plan(path)); }) == written,
          "a plan is read again as another");
}

}  // namespace

// Messages name unknown keys as they stand in the file.
const Target kTarget = {.refusal = ExitCode::configuration, .file = kFile, .parse = parse, .plain_messages = false};

}  // namespace strata::fuzz
