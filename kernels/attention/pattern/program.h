// SPDX-License-Identifier: MIT
// Program: a pattern as a few integers that a kernel evaluates for a pair of positions.
//
// A program is a list of at most 31 instructions of three int32: operation, first, second. They are evaluated in order,
// on a stack of at most 16 values, and one value is left:
//
//   0 both       replaces the two upper values by their &
//   1 either     replaces the two upper values by their |
//   2 band       first <= query - key && query - key <= second
//   3 stride     |query - key| % first == 0 && |query - key| < second
//   4 prefix     key < first
//   5 global     min(query, key) < first
//   6 blocks     sees_block(first, second, query / 64, key / 64) of block_hash.h; first is the key as uint32
//   7 documents  document_of[query] == document_of[key]
//
// Operations from 2 on push one value. full, causal and window are bands, and bands joined by & are one band.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/attention/pattern/block_hash.h"
#include "kernels/attention/pattern/farthest.h"
#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

enum class Operation : int32_t { both, either, band, stride, prefix, global, blocks, documents };

struct Instruction {
  Operation operation;
  int32_t first = 0, second = 0;
};
static_assert(sizeof(Instruction) == 3 * sizeof(int32_t), "kernels read three integers");

inline constexpr int kMostInstructions = 2 * kMostWords - 1;

struct Program {
  int32_t length = 0;
  Instruction instructions[kMostInstructions] = {};

  bool has(Operation operation) const;
};

// A band, documents, or both joined by &. Many kernels know no other patterns.
struct Band {
  int32_t lowest = -kFarthest, highest = kFarthest;  // bounds of query - key
  bool documents = false;

  bool is_full() const { return lowest == -kFarthest && highest == kFarthest; }
  bool is_causal() const { return lowest == 0 && highest == kFarthest; }
};

// Throws an Error with ExitCode::configuration if the pattern has more than kMostWords words.
Program compile_program(const Pattern& pattern);

// Returns the program for pairs of one document, or of two different ones: documents is true or false for all of them.
Program with_documents(Program program, bool same);

// Returns nothing if the program is anything else.
std::optional<Band> band_of(const Program& program);

// Returns n of causal | prefix(n), the largest one if there are several: queries before n see the keys before n, and
// later queries are causal. Returns nothing if the program is anything else.
std::optional<int32_t> causal_prefix_of(const Program& program);

// Evaluates a program on values of any type with & and |, such as 64 bits at once. `leaf(instruction, index)` gives the
// value of an operation that pushes one.
template <class Leaf>
auto evaluate(const Program& program, Leaf leaf) {
  using Value = decltype(leaf(program.instructions[0], 0));
  std::array<Value, kMostWords> stack = {};
  size_t size = 0;
  for (int32_t i = 0; i < program.length; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.operation == Operation::both) {
      --size;
      stack[size - 1] = stack[size - 1] & stack[size];
    } else if (instruction.operation == Operation::either) {
      --size;
      stack[size - 1] = stack[size - 1] | stack[size];
    } else {
      stack[size++] = leaf(instruction, i);
    }
  }
  return stack[0];
}

// Evaluates a program for one pair as a kernel does: in 32 bits, with the documents of the query and of the key.
bool sees(const Program& program, int32_t query, int32_t key, int32_t query_document = 0, int32_t key_document = 0);

}  // namespace strata::kernels
