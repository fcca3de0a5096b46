// SPDX-License-Identifier: MIT
// Formats measurements of ops as rows for a table, as JSON lines, and as bars of a picture.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/kernels/measurement.h"
#include "tools/bench/kernels/roofline.h"

namespace strata::tools {

// One direction of one measurement, in readable units. Rows of peers have the same form, with the peer's name as level.
struct Row {
  std::string op, shape, dtype, level, direction;
  std::string refused = {};  // why it was not timed
  double microseconds = 0, error = 0;
  double bytes_per_second = 0, flops_per_second = 0;  // 0 if the op has no minimum of work
  double share = 0;                                   // share of the roofline; 0 if there is none
};

// Returns a row for the forward and one for the backward, if it was timed.
std::vector<Row> rows_of(const Measurement& measurement, const Roofline& roofline);

// Returns "3940 GB/s", "712000 GFLOP/s" if FLOPs are the limit, or "-".
std::string rate(const Row& row);

// Returns one line for a terminal.
std::string line_of(const Row& row);

// The device and the versions with which rows were measured.
struct Origin {
  std::string device, torch, kernels;
  Roofline roofline;
};

std::string json_lines(const std::vector<Row>& rows, const Origin& origin);

// Returns a picture with bars for each op, shape and direction, one per level. The length of a bar is its share of the
// roofline, which is drawn as a line.
std::string picture(const std::vector<Row>& rows, const Origin& origin);

}  // namespace strata::tools
