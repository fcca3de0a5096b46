// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/blind_query.h"

#include <string>

#include "base/errors.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

// Each position becomes a document of its own.
Program without_neighbors(Program program) {
  for (Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::documents) instruction = {Operation::band, 0, 0};
  }
  return program;
}

// True if each query sees itself, at any position: prefixes and globals, which end somewhere, are not needed for that.
bool sees_itself_everywhere(const Program& program) {
  return evaluate(program, [](const Instruction& instruction, int32_t) -> uint32_t {
           const bool ends = instruction.operation == Operation::prefix || instruction.operation == Operation::global;
           const bool is_band = instruction.operation == Operation::band;
           return !ends && (!is_band || (instruction.first <= 0 && instruction.second >= 0));
         }) != 0;
}

}  // namespace

std::optional<int64_t> find_blind_query(const Pattern& pattern, int64_t positions) {
  const Program program = without_neighbors(compile_program(pattern));
  if (sees_itself_everywhere(program)) return std::nullopt;
  const PairCounter counter(program, positions, {});
  for (int64_t query = 0; query < positions; ++query) {
    if (!sees_any(counter, query, 0, positions)) return query;
  }
  return std::nullopt;
}

void check_every_query_sees_a_key(const Pattern& pattern, int64_t positions) {
  const std::optional<int64_t> row = find_blind_query(pattern, positions);
  if (!row) return;
  throw Error(ExitCode::configuration, "attention pattern: in `" + to_text(pattern) + "` the query at row " +
                                           std::to_string(*row) + " of " + std::to_string(positions) +
                                           " sees no key; add `| window(1)`, so that each query sees itself");
}

}  // namespace strata::kernels
