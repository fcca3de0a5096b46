// SPDX-License-Identifier: MIT
// What was measured, as rows: for a table, as JSON lines, as bars in an SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measurement.h"
#include "tools/bench/roofline.h"

namespace strata::tools {

// One direction of one measurement, in the units of people. Peers give the same rows, with their name as level.
struct Row {
  std::string op, shape, dtype, level, direction;
  std::string refused = {};  // why there is no time
  double microseconds = 0, error = 0;
  double bytes_per_second = 0, flops_per_second = 0;  // 0: there is nothing that must be done
  double share = 0;                                   // of the roofline; 0 where there is none
};

// Forward, and backward where it was timed.
std::vector<Row> rows_of(const Measurement& measurement, const Roofline& roofline);

// "3.94 TB/s", "712 TFLOP/s" where FLOPs are what limits, "-".
std::string rate(const Row& row);

// For a terminal. Rows of an op, shape and direction stand under one head.
std::string line_of(const Row& row);

// Where and with what rows were measured.
struct Origin {
  std::string device, torch, kernels;
  Roofline roofline;
};

std::string json_lines(const std::vector<Row>& rows, const Origin& origin);

// Bars for each op, shape and direction, one bar a level, as long as its share of the roofline, which is a line.
std::string svg(const std::vector<Row>& rows, const Origin& origin);

}  // namespace strata::tools
