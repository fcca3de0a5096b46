// SPDX-License-Identifier: MIT
// Runs a target under libFuzzer, which keeps the inputs that reach new code and saves an input that fails.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/harness/oracle.h"

namespace {

// One mutation in four keeps its wrong checksums, because they must be refused too.
constexpr unsigned kUnmendedShare = 4;

// One mutation in five inserts a word of the format too. No divisor is shared with kUnmendedShare.
constexpr unsigned kWordShare = 5;

size_t with_word(uint8_t* bytes, size_t size, size_t most, unsigned seed) {
  const auto& words = strata::fuzz::kTarget.words;
  if (words.empty()) return size;
  std::minstd_rand draw(seed);
  const std::string_view word = words[draw() % words.size()];
  if (size + word.size() > most) return size;
  uint8_t* at = bytes + draw() % (size + 1);
  std::copy_backward(at, bytes + size, bytes + size + word.size());
  std::copy(word.begin(), word.end(), at);
  return size + word.size();
}

// LibTorch and the memory that AddressSanitizer keeps back take up to 600 MiB.
constexpr size_t kOwnMebibytes = 1024;

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

// Sets the limits of the target, so that they also hold when an input is run again by hand. The options of the command
// line come after them and take their place.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const size_t most = strata::fuzz::kTarget.mebibytes;
  // The search and a slow machine share the 25 s. libFuzzer keeps pointers to all of these.
  static std::vector<std::string> limits = {"-malloc_limit_mb=" + std::to_string(most),
                                            "-rss_limit_mb=" + std::to_string(most + kOwnMebibytes), "-timeout=25",
                                            "-max_len=65536"};
  static std::vector<char*> all;
  all.assign(*arguments, *arguments + *count);
  for (size_t i = 0; i < limits.size(); ++i) all.insert(all.begin() + 1 + static_cast<long>(i), limits[i].data());
  *count = static_cast<int>(all.size());
  all.push_back(nullptr);
  *arguments = all.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto verdict = strata::fuzz::run_target({reinterpret_cast<const char*>(bytes), size});
  if (verdict.complaint.empty()) return 0;
  std::fprintf(stderr, "finding: %s\n", verdict.complaint.c_str());
  std::abort();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most, unsigned seed) {
  if (seed % kWordShare == 0) size = with_word(bytes, size, most, seed);
  size = LLVMFuzzerMutate(bytes, size, most);
  if (strata::fuzz::kTarget.mend == nullptr || seed % kUnmendedShare == 0) return size;
  const std::string mended = strata::fuzz::kTarget.mend({reinterpret_cast<const char*>(bytes), size});
  if (mended.size() > most) return size;
  std::copy(mended.begin(), mended.end(), bytes);
  return mended.size();
}
