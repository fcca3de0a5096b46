// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/program.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "base/errors.h"

namespace strata::kernels {
namespace {

using Kind = Pattern::Kind;

bool is_band(const Pattern& pattern) {
  return pattern.kind == Kind::full || pattern.kind == Kind::causal || pattern.kind == Kind::window;
}

Instruction band_of(const Pattern& pattern) {
  if (pattern.kind == Kind::causal) return {Operation::band, 0, kFarthest};
  const auto reach = pattern.kind == Kind::window ? static_cast<int32_t>(pattern.n - 1) : kFarthest;
  return {Operation::band, -reach, reach};
}

// No two positions are farther apart than 2^31 - 2, so a longer span ends at 2^31 - 1.
Instruction stride_of(const Pattern& pattern) {
  const bool longer = pattern.n > kFarthest / pattern.step;
  return {Operation::stride, static_cast<int32_t>(pattern.step),
          longer ? kFarthest : static_cast<int32_t>(pattern.n * pattern.step)};
}

class Compiler {
 public:
  Program program;

  void add(const Pattern& pattern) {
    if (is_band(pattern)) return push(band_of(pattern));
    switch (pattern.kind) {
      case Kind::dilated:
        return push(stride_of(pattern));
      case Kind::prefix:
        return push({Operation::prefix, static_cast<int32_t>(pattern.n)});
      case Kind::global:
        return push({Operation::global, static_cast<int32_t>(pattern.n)});
      case Kind::blocks:
        return push({Operation::blocks, std::bit_cast<int32_t>(block_key(static_cast<uint32_t>(pattern.seed))),
                     block_threshold(pattern.density)});
      case Kind::documents:
        return push({Operation::documents});
      case Kind::both:
        return add_both(pattern);
      default:
        for (const Pattern& part : pattern.parts) {
          add(part);
          if (&part != pattern.parts.data()) push({Operation::either});
        }
    }
  }

 private:
  void push(Instruction instruction) { program.instructions[program.length++] = instruction; }

  // The bands first, as one.
  void add_both(const Pattern& pattern) {
    Instruction common = {Operation::band, -kFarthest, kFarthest};
    bool any = false;
    for (const Pattern& part : pattern.parts) {
      if (!is_band(part)) continue;
      const Instruction band = band_of(part);
      common.first = std::max(common.first, band.first);
      common.second = std::min(common.second, band.second);
      any = true;
    }
    if (any) push(common);
    for (const Pattern& part : pattern.parts) {
      if (is_band(part)) continue;
      add(part);
      if (any) push({Operation::both});
      any = true;
    }
  }
};

}  // namespace

bool Program::has(Operation operation) const {
  return std::any_of(instructions, instructions + length,
                     [&](const Instruction& instruction) { return instruction.operation == operation; });
}

Program compile_program(const Pattern& pattern) {
  if (const int words = count_words(pattern); words > kMostWords) {
    throw Error(ExitCode::configuration, "attention pattern: it has " + std::to_string(words) +
                                             " words, expected at most " + std::to_string(kMostWords));
  }
  Compiler compiler;
  compiler.add(pattern);
  return compiler.program;
}

Program with_documents(Program program, bool same) {
  const Instruction every = {Operation::band, -kFarthest, kFarthest}, none = {Operation::prefix, 0};
  for (Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::documents) instruction = same ? every : none;
  }
  return program;
}

std::optional<Band> band_of(const Program& program) {
  Band band;
  for (int32_t i = 0; i < program.length; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.operation == Operation::band) {
      band.lowest = instruction.first;
      band.highest = instruction.second;
    } else if (instruction.operation == Operation::documents) {
      band.documents = true;
    } else if (instruction.operation != Operation::both) {
      return std::nullopt;
    }
  }
  // A chain of & has one band, which is first.
  return band;
}

std::optional<int32_t> causal_prefix_of(const Program& program) {
  int32_t prefix = 0;
  bool causal = false;
  for (int32_t i = 0; i < program.length; ++i) {
    const auto& [operation, first, second] = program.instructions[i];
    if (operation == Operation::band && first == 0 && second == kFarthest) {
      causal = true;
    } else if (operation == Operation::prefix) {
      prefix = std::max(prefix, first);
    } else if (operation != Operation::either) {
      return std::nullopt;
    }
  }
  return causal && prefix > 0 ? std::optional(prefix) : std::nullopt;
}

bool sees(const Program& program, int32_t query, int32_t key, int32_t query_document, int32_t key_document) {
  const int32_t ahead = query - key, distance = std::abs(ahead);
  const auto value_of = [&](const Instruction& instruction, int32_t) -> uint32_t {
    const int32_t first = instruction.first, second = instruction.second;
    switch (instruction.operation) {
      case Operation::band:
        return first <= ahead && ahead <= second;
      case Operation::stride:
        return distance % first == 0 && distance < second;
      case Operation::prefix:
        return key < first;
      case Operation::global:
        return std::min(query, key) < first;
      case Operation::blocks:
        return sees_block(std::bit_cast<uint32_t>(first), second, query / kBlockPositions, key / kBlockPositions);
      case Operation::documents:
        return query_document == key_document;
      default:
        return 0;
    }
  };
  return evaluate(program, value_of) != 0;
}

}  // namespace strata::kernels
