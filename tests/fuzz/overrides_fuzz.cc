// SPDX-License-Identifier: MIT
// Fuzzes the overrides of a command line, one in each line, over a good configuration.
#include <vector>

#include "base/files/text_lines.h"
#include "tests/fuzz/harness/read_again.h"
#include "trainer/config/load_config.h"

namespace strata::fuzz {
namespace {

constexpr char kGood[] =
    "run: {folder: runs/test}\n"
    "steps: 100\n"
    "batch: 16\n"
    "micro_batch: 4\n"
    "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, feed_forward: 128, sequence: 32,\n"
    " vocabulary: 256}\n"
    "data: {type: text, train: train.bin, validation: validation.bin}\n"
    "optimizer: {type: adamw, learning_rate: 1e-3}\n"
    "schedule: {type: cosine, warmup: 10}\n"
    "kernels: {default: aten, layers: [{only: 0-1, linear: aten}]}\n"
    "checkpoint: {every: 50}\n";

void parse(std::string_view bytes) {
  const std::vector<std::string> overrides = lines_of(std::string(bytes));
  const trainer::LoadedConfig loaded = trainer::parse_trainer_config("run.yaml", kGood, overrides);
  read_again([&] { return trainer::parse_trainer_config("run.yaml", loaded.resolved(), {}); });
}

}  // namespace

// Messages name the override, whose text is the user's own and is not shortened.
const Target kTarget = {.refusal = ExitCode::configuration, .file = "", .parse = parse, .plain_messages = false};

}  // namespace strata::fuzz
