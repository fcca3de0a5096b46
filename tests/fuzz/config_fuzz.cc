// SPDX-License-Identifier: MIT
// Fuzzes the YAML of a run: an accepted configuration is the same after it is written and read again.
#include "tests/fuzz/harness/read_again.h"
#include "trainer/config/load_config.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "run.yaml";

void parse(std::string_view bytes) {
  const trainer::LoadedConfig loaded = trainer::parse_trainer_config(kFile, std::string(bytes), {});
  const std::string resolved = loaded.resolved();
  const auto differences =
      read_again([&] { return trainer::differences_that_forbid_resuming(resolved, loaded.config, 0); });
  require(differences.empty(), "resuming is forbidden: " + (differences.empty() ? "" : differences[0]));
  // Only the comments with the origins may differ.
  const std::vector<configs::Line> lines = loaded.lines();
  const auto again = read_again([&] { return trainer::parse_trainer_config(kFile, resolved, {}).lines(); });
  require(again.size() == lines.size(), "the resolved configuration has other keys");
  for (size_t i = 0; i < lines.size(); ++i) {
    require(again[i].path == lines[i].path && again[i].value == lines[i].value,
            lines[i].path + " is read again as " + again[i].value);
  }
}

}  // namespace

// Messages name unknown keys as they stand in the file.
const Target kTarget = {.refusal = ExitCode::configuration,
                        .file = kFile,
                        .parse = parse,
                        .plain_messages = false,
                        .words = {"{", "}", "[", ": ", "&a ", "*a", "!!str ", "<<: ", "---\n", "\t", "|\n  ",
                                  "\xef\xbb\xbf", "# ", "model: {", ".inf", "0x10", "0-99999999999", "\n"}};

}  // namespace strata::fuzz
