// SPDX-License-Identifier: MIT
// Compares the ledgers of a run with the ledgers of its replay: bit for bit, or within the rounding of a type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/ledger/ledger.h"

namespace strata::trainer {

enum class Verdict { equal, within_rounding, data_differ, numbers_differ };

struct Comparison {
  Verdict verdict = Verdict::equal;
  std::string text;  // sentences for the user; of the first difference, if there is one
};

struct ComparedSteps {
  int64_t after = 0, last = 0;  // the steps after..last, without the first
  // The relative difference that numbers may have, for each step since `after`, where bits cannot be equal.
  double rounding = 0;
};

// Both sides have the ledgers of all ranks. Throws Error (storage) if a step of a rank was not recorded.
Comparison compare(const std::vector<Ledger>& recorded, const std::vector<Ledger>& replayed,
                   const ComparedSteps& steps);

}  // namespace strata::trainer
