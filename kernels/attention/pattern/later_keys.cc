// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/later_keys.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/attention/pattern/layer_reach.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

using Kind = Pattern::Kind;

// False does not mean that a later key is seen: this looks at words alone.
bool is_causal(const Pattern& pattern) {
  if (pattern.kind == Kind::both) return std::ranges::any_of(pattern.parts, is_causal);
  if (pattern.kind == Kind::either) return std::ranges::all_of(pattern.parts, is_causal);
  return pattern.kind == Kind::causal || (pattern.kind == Kind::prefix && pattern.n == 0);
}

int64_t longest_prefix(const Pattern& pattern) {
  int64_t longest = pattern.kind == Kind::prefix ? pattern.n : 0;
  for (const Pattern& part : pattern.parts) longest = std::max(longest, longest_prefix(part));
  return longest;
}

// Halves the queries until the borders of a part show that none of them sees a later key, or only one is left.
bool any_sees_later_keys(const PairCounter& counter, int64_t first_query, int64_t end_query, int64_t known_positions,
                         int64_t positions) {
  const int64_t first_key = std::max(first_query + 1, known_positions);
  if (first_key >= positions || counter.share({first_query, end_query, first_key, positions}) == Share::none()) {
    return false;
  }
  if (end_query - first_query == 1) return sees_any(counter, first_query, first_key, positions);
  const int64_t middle = (first_query + end_query) / 2;
  return any_sees_later_keys(counter, first_query, middle, known_positions, positions) ||
         any_sees_later_keys(counter, middle, end_query, known_positions, positions);
}

}  // namespace

bool sees_later_keys(const Pattern& pattern, int64_t known_positions, int64_t positions) {
  if (is_causal(pattern) || positions == 0) return false;
  const PairCounter counter(compile_program(for_one_document(pattern)), positions, {});
  return any_sees_later_keys(counter, 0, positions, known_positions, positions);
}

Pattern without_prefixes(const Pattern& pattern) {
  Pattern result = pattern;
  if (result.kind == Kind::prefix) result.n = 0;
  for (Pattern& part : result.parts) part = without_prefixes(part);
  return result;
}

// Only a prefix shows later keys, so query and key are both positions of the longest prefix. Positions behind it see
// earlier keys alone, and these have at most tokens of the prefix.
std::vector<bool> reached_by_later(std::span<const Pattern> layers, int64_t positions) {
  int64_t longest = 0;
  for (const Pattern& pattern : layers) longest = std::max(longest, longest_prefix(pattern));
  std::vector<int64_t> last(static_cast<size_t>(std::min(longest, positions)));
  std::iota(last.begin(), last.end(), 0);
  std::vector<bool> reached(static_cast<size_t>(positions));
  int64_t reached_count = 0;
  std::vector<Pattern> no_change;  // the patterns of layers since the last one that carried a token further
  for (const Pattern& pattern : layers) {
    if (reached_count + 1 >= std::ssize(last)) break;  // the last one of them is never reached
    if (reached_count == 0 && is_causal(pattern)) continue;
    if (std::ranges::find(no_change, pattern) != no_change.end()) continue;
    std::vector<int64_t> next = reached_after_layer(compile_program(for_one_document(pattern)), last);
    if (next != last) no_change.clear();
    if (next == last) no_change.push_back(pattern);
    last = std::move(next);
    for (size_t position = 0; position < last.size(); ++position) {
      reached[position] = last[position] > static_cast<int64_t>(position);
    }
    reached_count = std::ranges::count(reached, true);
  }
  return reached;
}

}  // namespace strata::kernels
