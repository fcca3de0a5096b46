// SPDX-License-Identifier: MIT
// counted_work WORK N TOKENS: does a piece of work N times, so that its instructions can be counted. It has no
// LibTorch, whose start takes a hundred times more instructions.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/permutation.h"
#include "trainer/data/text/token_file.h"

namespace strata {
namespace {

// Each returns a number that depends on all that was computed.
using Work = std::function<uint64_t(int64_t count, const std::string& tokens)>;

// The hash of the data of a step, of 4096 bytes.
uint64_t hash(int64_t count, const std::string& /*tokens*/) {
  const std::string bytes(4096, 'a');
  uint64_t hashed = 0;
  for (int64_t i = 0; i < count; ++i) hashed = hash_bytes(bytes.data(), bytes.size(), /*seed=*/hashed);
  return hashed;
}

// The hash of 1024 weights.
uint64_t content(int64_t count, const std::string& /*tokens*/) {
  const std::vector<float> values(1024, 1.5f);
  ContentSum sum;
  for (int64_t i = 0; i < count; ++i) sum += sum_of_piece(values.data(), 1024, /*offset=*/i);
  return sum.low ^ sum.high;
}

// The order of the samples of an epoch.
uint64_t order(int64_t count, const std::string& /*tokens*/) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(permuted(/*key=*/7, i, /*size=*/100'003) * i);
  return sum;
}

// Samples of 128 tokens from a file.
uint64_t tokens(int64_t count, const std::string& path) {
  const trainer::TokenFile file(path);
  std::vector<int64_t> ids(128);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    file.read(i % 300, static_cast<int64_t>(ids.size()), ids.data());
    sum += static_cast<uint64_t>(ids.front() + ids.back());
  }
  return sum;
}

const std::map<std::string, Work> kWork = {{"content", content}, {"hash", hash}, {"order", order}, {"tokens", tokens}};

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  const auto work = count == 4 ? strata::kWork.find(arguments[1]) : strata::kWork.end();
  if (work == strata::kWork.end()) {
    std::fputs("expected counted_work content|hash|order|tokens N TOKENS\n", stderr);
    return 2;
  }
  std::printf("%llu\n", static_cast<unsigned long long>(work->second(std::atoll(arguments[2]), arguments[3])));
}
