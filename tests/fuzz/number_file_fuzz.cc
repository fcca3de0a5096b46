// SPDX-License-Identifier: MIT
// Fuzzes tables of numbers and entries of sparse features. The first byte of an input chooses: integers or reals, any
// number of columns or two, whether the rest is gzipped first, or entries.
#include "tests/fuzz/harness/gzipped.h"
#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/graphs/number_file.h"
#include "trainer/data/graphs/sparse_features.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.csv";
constexpr unsigned kReals = 1, kTwoColumns = 2, kGzipped = 4, kEntries = 8;
constexpr int64_t kNodes = 3, kFeatures = 4;

// The rows are those of a matrix, and their columns ascend.
void parse_entries(const std::string& path) {
  const trainer::SparseRows rows = trainer::read_sparse_features(path, kNodes, "", kFeatures);
  const int64_t* offset = trainer::integers(rows.offsets);
  const int64_t* column = trainer::integers(rows.columns);
  require(rows.offsets.numel() == kNodes + 1 && offset[0] == 0, "no row for each node");
  require(offset[kNodes] == rows.columns.numel() && rows.columns.numel() == rows.values.numel(), "entries in no row");
  for (int64_t node = 0; node < kNodes; ++node) {
    for (int64_t i = offset[node]; i < offset[node + 1]; ++i) {
      const int64_t least = i == offset[node] ? 0 : column[i - 1] + 1;
      require(column[i] >= least && column[i] < kFeatures, "a column that is not there, or twice");
    }
  }
}

void parse(std::string_view bytes) {
  const unsigned choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(bytes.empty() ? 0 : 1);
  const std::string path = write_input(kFile, (choice & kGzipped) != 0 ? gzipped(bytes) : std::string(bytes));
  if ((choice & kEntries) != 0) return parse_entries(path);
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
