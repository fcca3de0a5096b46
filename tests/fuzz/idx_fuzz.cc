// SPDX-License-Identifier: MIT
// Fuzzes IDX files. The first byte of an input chooses: labels or images, and whether the rest is gzipped first.
#include "tests/fuzz/harness/gzipped.h"
#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/images/idx_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.idx";
constexpr unsigned kLabels = 1, kGzipped = 2;

void parse(std::string_view bytes) {
  const unsigned choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(bytes.empty() ? 0 : 1);
  const std::string path = write_input(kFile, (choice & kGzipped) != 0 ? gzipped(bytes) : std::string(bytes));
  const bool labels = (choice & kLabels) != 0;
  const trainer::IdxArray array = labels ? trainer::read_idx(path, 1, 1) : trainer::read_idx(path, 3, 4);
  size_t count = 1;
  for (const int64_t size : array.sizes) count *= static_cast<size_t>(size);
  require(count == array.values.size(), "the sizes are not those of the values");
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse};

}  // namespace strata::fuzz
