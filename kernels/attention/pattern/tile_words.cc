// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/tile_words.h"

#include <algorithm>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

constexpr TileWords kNoForm = {.bits = TileWords::program};

// A part of a program in the form of TileWords. Numbers of a word whose bit is not set have their defaults.
struct ProgramPart {
  TileWords words;

  bool has(int32_t bits) const { return (words.bits & bits) != 0; }
};

TileWords leaf(const Instruction& instruction) {
  const int32_t first = instruction.first, second = instruction.second;
  switch (instruction.operation) {
    case Operation::band:
      return {.bits = TileWords::band, .lowest = first, .highest = second};
    case Operation::stride:
      return {.bits = TileWords::stride, .step = first, .span = second};
    case Operation::prefix:
      return {.bits = TileWords::prefix, .first_keys = first};
    case Operation::global:
      return {.bits = TileWords::global, .border = first};
    case Operation::blocks:
      return {.bits = TileWords::blocks, .hash_key = first, .threshold = second};
    case Operation::documents:
      return {.bits = TileWords::documents};
    default:
      return kNoForm;
  }
}

// Copies the words that `from` has set, and their numbers. The band and documents are left to the caller.
void take_any_of(TileWords& into, const TileWords& from) {
  if (from.bits & TileWords::near) into.near_lowest = from.near_lowest, into.near_highest = from.near_highest;
  if (from.bits & TileWords::stride) into.step = from.step, into.span = from.span;
  if (from.bits & TileWords::prefix) into.first_keys = from.first_keys;
  if (from.bits & TileWords::global) into.border = from.border;
  if (from.bits & TileWords::blocks) into.hash_key = from.hash_key, into.threshold = from.threshold;
  into.bits |= from.bits & TileWords::kAnyOf;
}

ProgramPart operator&(const ProgramPart& a, const ProgramPart& b) {
  if (a.has(TileWords::program) || b.has(TileWords::program)) return {kNoForm};
  if (a.has(TileWords::kAnyOf) && b.has(TileWords::kAnyOf)) return {kNoForm};
  TileWords words = a.words;
  words.lowest = std::max(words.lowest, b.words.lowest);
  words.highest = std::min(words.highest, b.words.highest);
  words.bits |= b.words.bits & (TileWords::band | TileWords::documents);
  take_any_of(words, b.words);
  return {words};
}

// In a union a band is stored as `near`, because `band` limits the whole expression.
TileWords as_any_of(TileWords words) {
  if (words.bits != TileWords::band) return words;
  return {.bits = TileWords::near, .near_lowest = words.lowest, .near_highest = words.highest};
}

ProgramPart operator|(const ProgramPart& a, const ProgramPart& b) {
  TileWords words = as_any_of(a.words);
  const TileWords others = as_any_of(b.words);
  const int32_t bits = words.bits | others.bits, twice = words.bits & others.bits;
  if ((bits & ~TileWords::kAnyOf) != 0 || (twice & ~(TileWords::prefix | TileWords::global)) != 0) return {kNoForm};
  const int32_t first_keys = std::max(words.first_keys, others.first_keys);
  const int32_t border = std::max(words.border, others.border);
  take_any_of(words, others);
  words.first_keys = first_keys;
  words.border = border;
  return {words};
}

}  // namespace

TileWords tile_words(const Program& program) {
  TileWords words =
      evaluate(program, [](const Instruction& instruction, int32_t) { return ProgramPart{leaf(instruction)}; }).words;
  // If no word of the union is set, `near` takes all distances: a kernel may evaluate it without its bit, and must then
  // see every pair.
  if ((words.bits & TileWords::kAnyOf) == 0) words.near_lowest = -kFarthest;
  return words;
}

}  // namespace strata::kernels
