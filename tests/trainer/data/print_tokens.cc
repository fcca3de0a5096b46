// SPDX-License-Identifier: MIT
// Prints the token ids of a file, one per line. Tests in Python compare them with the ids that they wrote.
#include <cstdio>
#include <vector>

#include "base/errors.h"
#include "trainer/data/text/token_file.h"

int main(int, char** arguments) try {
  const strata::trainer::TokenFile file(arguments[1]);
  std::vector<int64_t> ids(file.tokens());
  file.read(0, file.tokens(), ids.data());
  for (const int64_t id : ids) std::printf("%lld\n", static_cast<long long>(id));
} catch (const strata::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}
