// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/sparse_features.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/errors.h"
#include "trainer/data/graphs/number_file.h"

namespace strata::trainer {
namespace {

[[noreturn]] void fail_at(const std::string& path, int64_t entry, const std::string& what) {
  throw Error(ExitCode::data, path + ":" + std::to_string(entry + 1) + ": " + what);
}

}  // namespace

SparseRows read_sparse_features(const std::string& path, int64_t nodes, const std::string& nodes_are,
                                int64_t features) {
  const MatrixEntries entries = read_entries(path);
  const int64_t count = entries.rows.numel();
  const int64_t* node = integers(entries.rows);
  const int64_t* feature = integers(entries.columns);
  const float* value = entries.values.const_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    if (node[i] < 0 || node[i] >= nodes) {
      fail_at(path, i,
              "node " + std::to_string(node[i]) + " is not there; there are " + std::to_string(nodes) + " nodes" +
                  nodes_are);
    }
    if (feature[i] < 0 || feature[i] >= features) {
      fail_at(path, i,
              "feature " + std::to_string(feature[i]) + " is not there; expected 0 to " + std::to_string(features - 1) +
                  ", below model.features");
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(count));  // order of the lines
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return std::tie(node[a], feature[a], a) < std::tie(node[b], feature[b], b); });
  SparseRows rows = {at::zeros({nodes + 1}, at::kLong), at::empty({count}, at::kLong), at::empty({count}, at::kFloat)};
  int64_t* offset = rows.offsets.mutable_data_ptr<int64_t>();
  int64_t* column = rows.columns.mutable_data_ptr<int64_t>();
  float* value_in_row = rows.values.mutable_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = order[static_cast<size_t>(i)], before = i == 0 ? -1 : order[static_cast<size_t>(i - 1)];
    if (before >= 0 && node[before] == node[line] && feature[before] == feature[line]) {
      fail_at(path, line,
              "feature " + std::to_string(feature[line]) + " of node " + std::to_string(node[line]) +
                  " is there already, at " + path + ":" + std::to_string(before + 1));
    }
    ++offset[node[line] + 1];
    column[i] = feature[line];
    value_in_row[i] = value[line];
  }
  std::partial_sum(offset, offset + nodes + 1, offset);
  return rows;
}

}  // namespace strata::trainer
