// SPDX-License-Identifier: MIT
#include "trainer/report/console.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text/printable.h"

namespace strata::trainer {
namespace {

constexpr char kEraseLine[] = "\r\033[K", kDim[] = "\033[2m", kYellow[] = "\033[33m", kPlain[] = "\033[0m";

std::string two_digits(int64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); }

}  // namespace

std::string duration(double seconds) {
  const int64_t whole = std::llround(std::clamp(seconds, 0.0, 1e9));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  const std::string rest = ":" + two_digits(whole % 60);
  return hours > 0 ? std::to_string(hours) + ":" + two_digits(minutes) + rest : std::to_string(minutes) + rest;
}

std::string progress_text(int64_t step, int64_t last_step, double seconds_left) {
  return "step " + std::to_string(step) + "/" + std::to_string(last_step) + "   " +
         std::to_string(100 * step / std::max<int64_t>(last_step, 1)) + " %   " + duration(seconds_left) + " left";
}

Console::Options Console::options_from_environment() {
  Options options;
  const char* const terminal = std::getenv("STRATA_TERMINAL");
  const char* const no_color = std::getenv("NO_COLOR");
  options.terminal = terminal != nullptr && std::string_view(terminal) == "1";
  options.color = options.terminal && (no_color == nullptr || *no_color == '\0');
  return options;
}

void Console::line(std::string_view text) {
  erase_progress();
  std::fprintf(options_.out, "%s\n", printable_lines(text).c_str());
  std::fflush(options_.out);
}

void Console::warning(std::string_view text) {
  erase_progress();
  std::fprintf(options_.warnings, "%swarning:%s %s\n", options_.color ? kYellow : "", options_.color ? kPlain : "",
               printable_lines(text).c_str());
  std::fflush(options_.warnings);
}

void Console::progress(int64_t step, int64_t last_step) {
  if (!options_.terminal) return;
  const Clock::time_point now = Clock::now();
  if (first_step_ < 0) {
    first_step_ = step;
    begin_ = now;
    return;
  }
  if (drawn_ && now - last_drawn_ < std::chrono::milliseconds(200)) return;
  const double pace = std::chrono::duration<double>(now - begin_).count() / std::max<int64_t>(step - first_step_, 1);
  std::fprintf(options_.out, "%s%s%s%s", kEraseLine, options_.color ? kDim : "",
               progress_text(step, last_step, pace * (last_step - step)).c_str(), options_.color ? kPlain : "");
  std::fflush(options_.out);
  drawn_ = true;
  last_drawn_ = now;
}

void Console::erase_progress() {
  if (drawn_) std::fputs(kEraseLine, options_.out);
  std::fflush(options_.out);
  drawn_ = false;
}

}  // namespace strata::trainer
