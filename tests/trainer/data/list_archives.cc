// SPDX-License-Identifier: MIT
// list_archives PATTERN CLASSES: prints how many images archives have, or why they are refused. Starts without
// LibTorch.
#include <cstdio>
#include <cstdlib>

#include "base/errors.h"
#include "trainer/data/images/web_dataset.h"

int main(int count, char** arguments) {
  using namespace strata;
  if (count != 3) return 2;
  try {
    const trainer::WebDataset set(arguments[1], std::atoll(arguments[2]), /*shuffle=*/1);
    std::printf("%lld\n", static_cast<long long>(set.count()));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
