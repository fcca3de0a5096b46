// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/report.h"

#include <nlohmann/json.hpp>

#include "base/text/formatted.h"
#include "tools/bench/svg.h"

namespace strata::tools {
namespace {

Row timed(Row row, const char* direction, double seconds, const kernels::Work& work, const Roofline& roofline) {
  row.direction = direction;
  row.microseconds = 1e6 * seconds;
  row.bytes_per_second = work.bytes / seconds;
  row.flops_per_second = work.flops / seconds;
  row.share = roofline.least_seconds(work) / seconds;
  return row;
}

}  // namespace

std::vector<Row> rows_of(const Measurement& measurement, const Roofline& roofline) {
  const auto& [shape, dtype, level, verdict, timing] = measurement;
  Row row{std::string(shape.op()), shape.text(), short_name(dtype), std::string(name(level)), "forward"};
  row.error = verdict.share;
  if (!timing) {
    row.refused = verdict.words;
    return {row};
  }
  const auto element = static_cast<double>(c10::elementSize(dtype));
  std::vector<Row> rows = {timed(row, "forward", timing->forward_or_whole(), shape.forward_work(element), roofline)};
  if (timing->backward) {
    rows.push_back(timed(row, "backward", *timing->backward, shape.backward_work(element), roofline));
  }
  return rows;
}

std::string rate(const Row& row) {
  // Ops with fewer than 50 FLOPs per byte are limited by memory bandwidth on every current device.
  if (row.flops_per_second > 50 * row.bytes_per_second) return formatted("%.0f GFLOP/s", 1e-9 * row.flops_per_second);
  if (row.bytes_per_second > 0) return formatted("%.0f GB/s", 1e-9 * row.bytes_per_second);
  return "-";
}

std::string line_of(const Row& row) {
  const std::string head = formatted("%-14s %-44s %-4s %-12s %-8s", row.op.c_str(), row.shape.c_str(),
                                     row.dtype.c_str(), row.level.c_str(), row.direction.c_str());
  if (!row.refused.empty()) return head + " not timed: " + row.refused;
  return head + formatted(" %10.1f us %14s %5.0f %%  error %.2f", row.microseconds, rate(row).c_str(), 100 * row.share,
                          row.error);
}

std::string json_lines(const std::vector<Row>& rows, const Origin& origin) {
  std::string text;
  for (const Row& row : rows) {
    nlohmann::ordered_json line = {
        {"device", origin.device}, {"torch", origin.torch}, {"kernels", origin.kernels}, {"op", row.op},
        {"shape", row.shape},      {"dtype", row.dtype},    {"level", row.level},        {"direction", row.direction}};
    if (!row.refused.empty()) {
      line["not_timed"] = row.refused;
    } else {
      line["microseconds"] = row.microseconds;
      if (row.bytes_per_second > 0) line["gigabytes_per_second"] = 1e-9 * row.bytes_per_second;
      if (row.flops_per_second > 0) line["teraflops_per_second"] = 1e-12 * row.flops_per_second;
      if (row.share > 0) line["share_of_roofline"] = row.share;
      line["error"] = row.error;
      line["copy_gigabytes_per_second"] = 1e-9 * origin.roofline.bytes_per_second;
      line["gemm_teraflops_per_second"] = 1e-12 * origin.roofline.flops_per_second;
    }
    text += line.dump() + "\n";
  }
  return text;
}

std::string picture(const std::vector<Row>& rows, const Origin& origin) {
  std::vector<Bar> bars;
  for (const Row& row : rows) {
    if (!row.refused.empty() || row.share <= 0) continue;
    bars.push_back({row.op + " " + row.direction + "  " + row.shape + "  " + row.dtype, row.level,
                    formatted("%.1f us  %s", row.microseconds, rate(row).c_str()), row.share});
  }
  const std::string sentence =
      formatted("copy %.0f GB/s, GEMM %.1f TFLOP/s; bars are shares of what these allow, the line is all of it",
                1e-9 * origin.roofline.bytes_per_second, 1e-12 * origin.roofline.flops_per_second);
  return svg("Levels of each op on " + origin.device + ", torch " + origin.torch, sentence, bars);
}

}  // namespace strata::tools
