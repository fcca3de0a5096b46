// SPDX-License-Identifier: MIT
// Finds a rank for which all others wait in most steps, from the seconds that each rank works on its own.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::trainer {

struct Straggler {
  int rank = 0;
  std::string_view phase;   // the one in which most of the time is lost
  double milliseconds = 0;  // work of the rank in a step, less the median of the other ranks
  double ratio = 1;         // duration of a step / what it would be without this delay, if no other rank is slow
};

std::string to_text(const Straggler& straggler);

class StragglerWatch {
 public:
  StragglerWatch(int ranks, std::vector<std::string_view> phases);

  // `work` has the seconds of every rank in every phase of a step that took `milliseconds`, rank by rank. `now` is in
  // seconds. Returns the stragglers that are to be named now. Between two warnings about the same rank there is at
  // least a minute. This pause doubles with each warning, up to an hour.
  std::vector<Straggler> add(double milliseconds, std::span<const float> work, double now);

 private:
  struct Step {
    double milliseconds;
    std::vector<float> work;     // seconds, as add() got them
    std::vector<double> excess;  // milliseconds of each rank above the median of the others, over all phases
  };
  struct Rank {
    double peak = 0;  // the largest median of the excess in 15 steps; older ones count for less
    double quiet_until = 0, pause = 60;
  };
  std::string_view slowest_phase(size_t rank) const;

  const std::vector<std::string_view> phases_;
  std::vector<Rank> ranks_;
  std::deque<Step> steps_;
};

}  // namespace strata::trainer
