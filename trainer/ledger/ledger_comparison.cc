// SPDX-License-Identifier: MIT
#include "trainer/ledger/ledger_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/joined.h"

namespace strata::trainer {
namespace {

// The norm is a sum of squares over all elements, and small gradients carry more of the rounding than the loss.
constexpr double kNormToLoss = 8;

std::string fact(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "unknown" : found->second;
}

// Returns "ranks was 2 and is 1" for the first fact that differs; empty if all are equal.
std::string difference(const Facts& recorded, const Facts& replayed) {
  Facts all = recorded;
  all.insert(replayed.begin(), replayed.end());
  for (const auto& [name, value] : all) {
    const std::string was = fact(recorded, name), is = fact(replayed, name);
    if (was != is) return name + " was " + was + " and is " + is;
  }
  return "";
}

const LedgerStep& step_of(const std::vector<Ledger>& ledgers, size_t rank, int64_t step) {
  if (rank < ledgers.size()) {
    const auto found = ledgers[rank].steps.find(step);
    if (found != ledgers[rank].steps.end()) return found->second;
  }
  throw Error(ExitCode::storage, "the ledger of rank " + std::to_string(rank) + " has no step " + std::to_string(step));
}

const Facts& facts_of(const std::vector<Ledger>& ledgers, int64_t step) {
  const Facts* facts = ledgers.at(0).facts_of(step);
  if (facts == nullptr) {
    throw Error(ExitCode::storage, "the ledger of rank 0 does not say how step " + std::to_string(step) + " was run");
  }
  return *facts;
}

std::string list(const std::vector<size_t>& ranks) {
  const auto text_of = [](size_t rank) { return std::to_string(rank); };
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks, ", ", text_of);
}

std::string digits_of(float value) { return formatted("%.9g (%08x)", value, std::bit_cast<uint32_t>(value)); }

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// The relative difference; 0 for equal numbers and if none is finite, infinite if only one of them is finite. Gradients
// that overflow in float16 have an infinite norm, or NaN where infinities of both signs meet in a sum.
double distance(float a, float b) {
  if (a == b || (!std::isfinite(a) && !std::isfinite(b))) return 0;
  const double largest = std::max(std::abs(static_cast<double>(a)), std::abs(static_cast<double>(b)));
  const double relative = std::abs(static_cast<double>(a) - b) / largest;
  return std::isfinite(relative) ? relative : HUGE_VAL;
}

class Comparer {
 public:
  Comparer(const std::vector<Ledger>& recorded, const std::vector<Ledger>& replayed, const ComparedSteps& steps)
      : recorded_(recorded), replayed_(replayed), steps_(steps) {}

  Comparison run() {
    for (int64_t step = steps_.after + 1; step <= steps_.last; ++step) {
      const Facts &was = facts_of(recorded_, step), &is = facts_of(replayed_, step);
      std::string why = difference(was, is);
      if (why.empty() && fact(was, kFactRepeats) != "yes") why = "run.deterministic is off on a GPU";
      if (why.empty()) why = reason_;  // after a step whose bits may differ, bits of later steps may too
      if (const auto found = compare_data(step, was, is)) return *found;
      const auto found = why.empty() ? compare_bits(step) : compare_numbers(step, why);
      if (found) return *found;
      if (!why.empty() && reason_.empty()) reason_ = why;
    }
    return agreement();
  }

 private:
  static size_t ranks_of(const Facts& facts) {
    return static_cast<size_t>(std::max(1, std::atoi(fact(facts, kFactRanks).c_str())));
  }

  uint64_t sum_of_data(const std::vector<Ledger>& ledgers, int64_t step, const Facts& facts) const {
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ranks_of(facts); ++rank) sum += step_of(ledgers, rank, step).data;
    return sum;
  }

  std::optional<Comparison> compare_data(int64_t step, const Facts& was, const Facts& is) {
    std::string where;
    if (fact(was, kFactData) != fact(is, kFactData)) {
      where = "of all ranks";
    } else if (fact(was, kFactMicroBatch) != fact(is, kFactMicroBatch) ||
               fact(was, kFactSamples) != fact(is, kFactSamples)) {
      data_compared_ = false;
    } else if (fact(was, kFactRanks) == fact(is, kFactRanks)) {
      std::vector<size_t> ranks;
      for (size_t rank = 0; rank < ranks_of(was); ++rank) {
        if (step_of(recorded_, rank, step).data != step_of(replayed_, rank, step).data) ranks.push_back(rank);
      }
      if (!ranks.empty()) where = list(ranks);
    } else if (fact(was, kFactSamples) == "shared") {
      data_compared_ = false;
    } else if (sum_of_data(recorded_, step, was) != sum_of_data(replayed_, step, is)) {
      where = "of all ranks together";
    }
    if (where.empty()) return std::nullopt;
    return Comparison{Verdict::data_differ, "different: step " + std::to_string(step) + ", data, " + where +
                                                ": the samples of the step have other contents than in the run; its "
                                                "numbers are not compared"};
  }

  // Compares one number of a step. It is compared on each rank first, because that names the rank.
  std::optional<Comparison> compare_field(int64_t step, const char* name, float LedgerStep::*rank_field,
                                          float LedgerStep::*all_field) const {
    const size_t ranks = ranks_of(facts_of(recorded_, step));
    for (float LedgerStep::*const field : {rank_field, all_field}) {
      std::vector<size_t> different;
      for (size_t rank = 0; rank < ranks; ++rank) {
        if (!same_bits(step_of(recorded_, rank, step).*field, step_of(replayed_, rank, step).*field)) {
          different.push_back(rank);
        }
      }
      if (different.empty()) continue;
      const size_t first = different[0];
      const std::string part = field == all_field ? "" : "; the part of rank " + std::to_string(first);
      return Comparison{Verdict::numbers_differ, "different: step " + std::to_string(step) + ", " + name + ", " +
                                                     list(different) + part + " was " +
                                                     digits_of(step_of(recorded_, first, step).*field) + " and is " +
                                                     digits_of(step_of(replayed_, first, step).*field)};
    }
    return std::nullopt;
  }

  std::optional<Comparison> compare_bits(int64_t step) {
    if (auto found = compare_field(step, "loss", &LedgerStep::loss_of_rank, &LedgerStep::loss)) return found;
    if (auto found = compare_field(step, "gradient norm", &LedgerStep::squares_of_rank, &LedgerStep::gradient_norm)) {
      return found;
    }
    std::vector<size_t> different;
    for (size_t rank = 0; rank < ranks_of(facts_of(recorded_, step)); ++rank) {
      const auto &was = recorded_[rank].weights, &is = replayed_[rank].weights;
      if (!was.contains(step) || !is.contains(step)) continue;
      if (was.at(step) != is.at(step)) different.push_back(rank);
      with_weights_ = step;
    }
    if (different.empty()) return std::nullopt;
    return Comparison{Verdict::numbers_differ, "different: step " + std::to_string(step) + ", weights, " +
                                                   list(different) + ": their hash after the step is another one"};
  }

  std::optional<Comparison> compare_numbers(int64_t step, const std::string& why) {
    const LedgerStep &was = step_of(recorded_, 0, step), &is = step_of(replayed_, 0, step);
    const double allowed = steps_.rounding * static_cast<double>(step - steps_.after);
    for (const auto& [name, field, factor] : {std::tuple("loss", &LedgerStep::loss, 1.0),
                                              std::tuple("gradient norm", &LedgerStep::gradient_norm, kNormToLoss)}) {
      const double found = distance(was.*field, is.*field);
      if (found > largest_) {
        largest_ = found;
        largest_at_ = std::string(name) + " of step " + std::to_string(step);
      }
      if (found <= factor * allowed) continue;
      const std::string limit =
          formatted(": a relative difference of %.1e, and rounding explains %.1e", found, factor * allowed);
      return Comparison{Verdict::numbers_differ, "different: step " + std::to_string(step) + ", " + name + ": was " +
                                                     digits_of(was.*field) + " and is " + digits_of(is.*field) + limit +
                                                     " (not compared bit for bit, because " + why + ")"};
    }
    return std::nullopt;
  }

  Comparison agreement() const {
    const std::string steps = steps_.after + 1 == steps_.last
                                  ? "step " + std::to_string(steps_.last)
                                  : "steps " + std::to_string(steps_.after + 1) + " to " + std::to_string(steps_.last);
    const std::string what = std::string(data_compared_ ? "data, " : "") + "loss and gradient norm of " + steps;
    const std::string no_data = data_compared_ ? "" : "; the data are not compared, because they are split otherwise";
    if (reason_.empty()) {
      const std::string weights =
          with_weights_ > 0 ? ", and the weights after step " + std::to_string(with_weights_) : "";
      return {Verdict::equal, "equal: " + what + weights + ", bit for bit" + no_data};
    }
    const std::string largest = largest_ > 0
                                    ? formatted("the largest relative difference is %.1e, the ", largest_) + largest_at_
                                    : "no bit of them differs";
    return {Verdict::within_rounding, "equal within rounding: " + what + "; " + largest +
                                          "; not compared bit for bit, because " + reason_ + no_data};
  }

  const std::vector<Ledger>&recorded_, &replayed_;
  const ComparedSteps steps_;
  std::string reason_;  // why bits were not compared; empty: they were
  bool data_compared_ = true;
  int64_t with_weights_ = 0;  // the last step whose weights were compared
  double largest_ = 0;        // relative difference of a number
  std::string largest_at_;
};

}  // namespace

Comparison compare(const std::vector<Ledger>& recorded, const std::vector<Ledger>& replayed,
                   const ComparedSteps& steps) {
  return Comparer(recorded, replayed, steps).run();
}

}  // namespace strata::trainer
