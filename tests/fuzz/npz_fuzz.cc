// SPDX-License-Identifier: MIT
// Fuzzes the arrays of NumPy's .npz files, which have one array `a` of integers, reals or booleans. The first byte of
// an input chooses which are expected, and how many dimensions.
#include "tests/fuzz/harness/input_files.h"
#include "tests/fuzz/harness/zip_checksums.h"
#include "trainer/data/graphs/npz_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.npz";
constexpr unsigned kReals = 1, kMatrix = 2, kItems = 4;
constexpr int64_t kAll = 6;

void parse(std::string_view bytes) {
  const unsigned choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(bytes.empty() ? 0 : 1);
  trainer::NpzFile file(write_input(kFile, bytes));
  if ((choice & kItems) != 0) {
    require(file.items("a", kAll).dim() == 1, "items in more than one dimension");
    return;
  }
  const int64_t dimensions = (choice & kMatrix) != 0 ? 2 : 1;
  const at::Tensor array = (choice & kReals) != 0 ? file.reals("a", dimensions) : file.integers("a", dimensions);
  require(array.dim() == dimensions, "another number of dimensions");
}

std::string mended(std::string bytes) {
  return bytes.empty() ? bytes : bytes.substr(0, 1) + with_zip_checksums(bytes.substr(1));
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse, .mend = mended};

}  // namespace strata::fuzz
