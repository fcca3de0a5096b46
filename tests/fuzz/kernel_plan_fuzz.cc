// SPDX-License-Identifier: MIT
// Fuzzes plans of kernels: an accepted plan is the same after it is written and read again.
#include <algorithm>
#include <cctype>
#include <string>

#include "tests/fuzz/harness/input_files.h"
#include "tests/fuzz/harness/read_again.h"
#include "trainer/levels/kernel_plan.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "plan.yaml";

void parse(std::string_view bytes) {
  const trainer::KernelPlan plan = trainer::read_kernel_plan(write_input(kFile, bytes));
  // Names of ops and of keys are written without quotes, because only names of real ops are ever written.
  const bool has_names = std::all_of(plan.measured.begin(), plan.measured.end(), [](const trainer::PlanRow& row) {
    const std::string names = row.op + row.key;
    return !row.op.empty() && std::all_of(names.begin(), names.end(), [](char c) { return std::islower(c) != 0; });
  });
  if (!has_names) return;
  const std::string written = yaml(plan), path = write_input(kFile, written);
  require(read_again([&] { return yaml(trainer::read_kernel_plan(path)); }) == written,
          "a plan is read again as another");
}

}  // namespace

// Messages name unknown keys as they stand in the file.
const Target kTarget = {.refusal = ExitCode::configuration, .file = kFile, .parse = parse, .plain_messages = false};

}  // namespace strata::fuzz
