// SPDX-License-Identifier: MIT
// Prints lines for people and, on a terminal, a last line with the progress of the run and the remaining time.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace strata::trainer {

std::string duration(double seconds);  // 1:02:03, 2:03

// "step 123/1200   10 %   1:23 left"
std::string progress_text(int64_t step, int64_t last_step, double seconds_left);

class Console {
 public:
  struct Options {
    std::FILE* out = stdout;
    std::FILE* warnings = stderr;
    bool terminal = false;  // isatty cannot be used: under mpirun it is true for a pipe
    bool color = false;
  };
  // Reads STRATA_TERMINAL=1, which the launcher sets if its output is a terminal. Color is used unless NO_COLOR is set.
  static Options options_from_environment();

  explicit Console(const Options& options) : options_(options) {}
  ~Console() { erase_progress(); }

  void line(std::string_view text);
  void warning(std::string_view text);
  // Call this after every step. The line is drawn at most five times per second.
  void progress(int64_t step, int64_t last_step);

 private:
  using Clock = std::chrono::steady_clock;
  void erase_progress();

  Options options_;
  bool drawn_ = false;
  int64_t first_step_ = -1;  // the first step that was seen, which ended at begin_; the pace is measured from there
  Clock::time_point begin_, last_drawn_;
};

}  // namespace strata::trainer
