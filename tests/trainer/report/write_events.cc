// SPDX-License-Identifier: MIT
// Writes the event file that event_file_test.py reads with TensorBoard: steps 1-5, then 4-6 again, as a resumed run
// does.
#include <cstdio>

#include "trainer/report/event_file.h"

int main(int, char** arguments) {
  using strata::trainer::EventFile;
  const auto warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  for (const int64_t resumed : {-1, 3}) {
    EventFile events(arguments[1], resumed, warn);
    for (int64_t step = resumed < 0 ? 1 : 4; step <= (resumed < 0 ? 5 : 6); ++step) {
      events.append(step, {{"loss", (resumed < 0 ? 0.1 : 0.3) * step}, {"phases/forward", 1e9 + step}});
    }
    events.append(resumed < 0 ? 5 : 300'000'000'000, {{"validation_loss", -1.5}});
  }
}
