// SPDX-License-Identifier: MIT
// Fuzzes tables of numbers. The first byte of an input chooses: integers or reals, any number of columns or two, and
// whether the rest is gzipped first.
#include "tests/fuzz/gzipped.h"
#include "tests/fuzz/input_files.h"
#include "trainer/data/graphs/number_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.csv";
constexpr unsigned kReals = 1, kTwoColumns = 2, kGzipped = 4;

void parse(std::string_view bytes) {
  const unsigned choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(bytes.empty() ? 0 : 1);
  const std::string path = write_input(kFile, (choice & kGzipped) != 0 ? gzipped(bytes) : std::string(bytes));
  const int64_t columns = (choice & kTwoColumns) != 0 ? 2 : 0;
  const at::Tensor numbers =
      (choice & kReals) != 0 ? trainer::read_reals(path, columns) : trainer::read_integers(path, columns);
  require(numbers.dim() == 2 && (columns != 0 || numbers.numel() > 0), "a table without numbers");
  require(columns == 0 || numbers.size(1) == columns, "another number of columns");
  // The bytes may be a gzip stream, which expands at most 1032 to 1.
  require(numbers.numel() <= 1032 * static_cast<int64_t>(bytes.size()), "more numbers than bytes");
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse};

}  // namespace strata::fuzz
