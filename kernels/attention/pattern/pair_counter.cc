// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/pair_counter.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/errors.h"
#include "kernels/attention/pattern/key_bits.h"

namespace strata::kernels {
namespace {

// Returns the border between blocks in the middle of [first, end), or `end` if all positions are in one block.
int64_t middle(int64_t first, int64_t end) {
  const int64_t low = first / kBlockPositions, high = (end - 1) / kBlockPositions;
  return low == high ? end : (low + high + 1) / 2 * kBlockPositions;
}

void check_documents(std::span<const int32_t> document_of, int64_t positions) {
  if (static_cast<int64_t>(document_of.size()) < positions) {
    throw Error(ExitCode::data, "attention pattern: there are documents for " + std::to_string(document_of.size()) +
                                    " positions, expected " + std::to_string(positions));
  }
  const auto wrong = std::is_sorted_until(document_of.begin(), document_of.end());
  if (wrong == document_of.end()) return;
  throw Error(ExitCode::data, "attention pattern: the document of position " +
                                  std::to_string(wrong - document_of.begin()) + " is " + std::to_string(*wrong) +
                                  ", expected at least " + std::to_string(*(wrong - 1)) +
                                  ", as at the position before it");
}

}  // namespace

PairCounter::PairCounter(const Program& program, int64_t positions, std::span<const int32_t> document_of)
    : program_(program), document_of_(document_of) {
  if (program.has(Operation::documents)) check_documents(document_of, positions);
}

size_t PairCounter::PlaceHash::operator()(const Place& place) const {
  uint64_t hash = place.shares;
  for (const int64_t part : {place.distance, place.queries, place.keys}) {
    hash = (hash ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

Share PairCounter::share(const Rectangle& rectangle) const {
  Shares shares;
  return share(rectangle, shares);
}

Share PairCounter::share(const Rectangle& rectangle, Shares& shares) const {
  return evaluate(program_, [&](const Instruction& instruction, int32_t i) {
    return shares[static_cast<size_t>(i)] = share_of(instruction, rectangle, document_of_);
  });
}

int64_t PairCounter::count(const Rectangle& rectangle) {
  Shares shares;
  const Share whole = share(rectangle, shares);
  if (whole == Share::none()) return 0;
  if (whole == Share::all()) return rectangle.pairs();
  if (!only_distances(shares)) return count_parts(rectangle, shares);
  Place place = {.distance = rectangle.first_query - rectangle.first_key,
                 .queries = rectangle.end_query - rectangle.first_query,
                 .keys = rectangle.end_key - rectangle.first_key,
                 .shares = 0};
  for (int32_t i = 0; i < program_.length; ++i)
    place.shares = place.shares << 2 | shares[static_cast<size_t>(i)].code();
  const auto [entry, is_new] = counts_.try_emplace(place);
  if (!is_new) return entry->second;
  const int64_t pairs = count_parts(rectangle, shares);
  return counts_[place] = pairs;  // counting parts may have moved the entry
}

bool PairCounter::is_known_empty(const Rectangle& rectangle) {
  const auto [first_query, end_query, first_key, end_key] = rectangle;
  Shares shares;
  const Share whole = share(rectangle, shares);
  if (whole == Share::none() || whole == Share::all()) return whole == Share::none();
  const bool is_cell = middle(first_query, end_query) == end_query && middle(first_key, end_key) == end_key;
  return (is_cell || only_distances(shares)) && count(rectangle) == 0;
}

int64_t PairCounter::count_parts(const Rectangle& rectangle, const Shares& shares) {
  const auto [first_query, end_query, first_key, end_key] = rectangle;
  const int64_t query = middle(first_query, end_query), key = middle(first_key, end_key);
  if (query == end_query && key == end_key) return count_cell(rectangle, shares);
  int64_t pairs = count({first_query, query, first_key, key});
  if (key < end_key) pairs += count({first_query, query, key, end_key});
  if (query < end_query) pairs += count({query, end_query, first_key, key});
  if (query < end_query && key < end_key) pairs += count({query, end_query, key, end_key});
  return pairs;
}

int64_t PairCounter::count_cell(const Rectangle& rectangle, const Shares& shares) const {
  const int64_t first_key = rectangle.first_key / kKeysOfBits * kKeysOfBits;
  const uint64_t inside = bits_between(first_key, rectangle.first_key, rectangle.end_key);
  int64_t pairs = 0;
  for (int64_t query = rectangle.first_query; query < rectangle.end_query; ++query) {
    const uint64_t seen = evaluate(program_, [&](const Instruction& instruction, int32_t i) {
      const Share share = shares[static_cast<size_t>(i)];
      if (share == Share::some()) return key_bits(instruction, query, first_key, document_of_);
      return share == Share::all() ? ~uint64_t{0} : uint64_t{0};
    });
    pairs += std::popcount(seen & inside);
  }
  return pairs;
}

bool PairCounter::only_distances(const Shares& shares) const {
  for (int32_t i = 0; i < program_.length; ++i) {
    const Operation operation = program_.instructions[i].operation;
    const bool by_distance = operation == Operation::band || operation == Operation::stride;
    if (!by_distance && shares[static_cast<size_t>(i)] == Share::some()) return false;
  }
  return true;
}

// Halves the keys until the borders of a part show a visible pair, or that there is none.
bool sees_any(const PairCounter& counter, int64_t query, int64_t first_key, int64_t end_key) {
  const Share share = counter.share({query, query + 1, first_key, end_key});
  if (!share.may_be_none()) return true;
  // The share of one pair is always clear.
  if (share == Share::none() || end_key - first_key == 1) return false;
  const int64_t middle = (first_key + end_key) / 2;
  return sees_any(counter, query, first_key, middle) || sees_any(counter, query, middle, end_key);
}

int64_t count_pairs(const Pattern& pattern, const Rectangle& rectangle, int64_t documents) {
  const int64_t positions = std::max(rectangle.end_query, rectangle.end_key);
  if (positions == 0) return 0;
  std::vector<int32_t> document_of;
  if (has_word(pattern, Pattern::Kind::documents)) {
    for (int64_t document = 0; document < documents; ++document) {
      document_of.resize(static_cast<size_t>(begin_of_document(positions, documents, document + 1)),
                         static_cast<int32_t>(document));
    }
  }
  return PairCounter(compile_program(pattern), positions, document_of).count(rectangle);
}

int64_t count_pairs(const Pattern& pattern, int64_t positions, int64_t documents) {
  return count_pairs(pattern, Rectangle{0, positions, 0, positions}, documents);
}

}  // namespace strata::kernels
