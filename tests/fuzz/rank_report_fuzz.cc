// SPDX-License-Identifier: MIT
// Fuzzes the reports of ranks about their files. An accepted report is the same after it is written and read again.
#include "tests/fuzz/harness/read_again.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace strata::fuzz {
namespace {

void parse(std::string_view bytes) {
  const std::string written = to_text(trainer::parse_rank_report(bytes));
  require(read_again([&] { return to_text(trainer::parse_rank_report(written)); }) == written,
          "a report is read again as another");
}

}  // namespace

// A report comes from another rank and not from a file.
const Target kTarget = {.refusal = ExitCode::storage, .file = "", .parse = parse, .plain_messages = false};

}  // namespace strata::fuzz
