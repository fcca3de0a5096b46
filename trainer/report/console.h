// SPDX-License-Identifier: MIT
// Lines for people, and on a terminal one last line that shows how far a run is and how long it will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace strata::trainer {

std::string with_thousands(int64_t number);  // 18,123
std::string duration(double seconds);        // 1:02:03, 2:03

// "step 123/1200   10 %   1:23 left"
std::string progress_text(int64_t step, int64_t last_step, double seconds_left);

class Console {
 public:
  struct Options {
    std::FILE* out = stdout;
    std::FILE* warnings = stderr;
    bool terminal = false;  // isatty is no help: under mpirun it says yes for a pipe
    bool color = false;
  };
  // STRATA_TERMINAL=1, set by the launcher, which knows; color unless NO_COLOR is set.
  static Options options_from_environment();

  explicit Console(const Options& options) : options_(options) {}
  ~Console() { erase_progress(); }

  void line(std::string_view text);
  void warning(std::string_view text);
  // Call it after every step; it is drawn at most five times a second.
  void progress(int64_t step, int64_t last_step);

 private:
  using Clock = std::chrono::steady_clock;
  void erase_progress();

  Options options_;
  bool drawn_ = false;
  int64_t first_step_ = -1;  // the first one seen, at begin_: the pace is measured from its end
  Clock::time_point begin_, last_drawn_;
};

}  // namespace strata::trainer
