// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/blind_query.h"

#include <numeric>
#include <string>
#include <vector>

#include "base/errors.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

// Halves the keys until the borders of a part show a visible pair, or that there is none.
bool sees_any(const PairCounter& counter, const Rectangle& row) {
  const Share share = counter.share(row);
  if (!share.may_be_none()) return true;
  // The share of one pair is always clear.
  if (share == Share::none() || row.pairs() == 1) return false;
  const int64_t middle = (row.first_key + row.end_key) / 2;
  return sees_any(counter, {row.first_query, row.end_query, row.first_key, middle}) ||
         sees_any(counter, {row.first_query, row.end_query, middle, row.end_key});
}

}  // namespace

std::optional<int64_t> find_blind_query(const Pattern& pattern, int64_t positions) {
  const Program program = compile_program(pattern);
  std::vector<int32_t> document_of(static_cast<size_t>(positions));
  std::iota(document_of.begin(), document_of.end(), 0);
  const PairCounter counter(program, positions, document_of);
  for (int64_t query = 0; query < positions; ++query) {
    const auto position = static_cast<int32_t>(query);
    // Most patterns let each query see itself.
    const bool sees_itself = sees(program, position, position, position, position);
    if (!sees_itself && !sees_any(counter, {query, query + 1, 0, positions})) return query;
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
