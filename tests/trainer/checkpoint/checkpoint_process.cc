// SPDX-License-Identifier: MIT
// A process that saves and checks on command. For each save that is to be disturbed from outside it forks a child: the
// child stops itself, a tracer attaches, and lets it continue. One start of LibTorch serves hundreds of saves.
//
//   save FOLDER STEP RANKS          -> committed
//   disturb FOLDER STEP RANKS WHEN  -> child PID; after it has ended: exit CODE | signal NUMBER
//                                      WHEN = start | commit: where the child stops itself
//   time FOLDER STEP MEGABYTES      -> child PID; NAME MILLISECONDS ... of two saves; exit CODE
//   check FOLDER                    -> step STEP, after its contents were compared with what was saved
//   clean FOLDER                    -> clean: as the next start of a run does
// Any failure answers: error TEXT.
#include <ATen/ops/full.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "tests/trainer/checkpoint/small_model.h"
#include "tests/trainer/checkpoint/virtual_ranks.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace strata::trainer {
namespace {

using Clock = std::chrono::steady_clock;

void answer(const std::string& text) { std::printf("%s\n", text.c_str()), std::fflush(stdout); }

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Returns 0 if it was committed, and 1 if it failed as it should, with a sentence.
int save_disturbed(const std::string& folder, int64_t step, int size, const std::string& when) {
  if (when == "start") ::raise(SIGSTOP);
  int exit_code = 0;
  try {
    run_ranks(size, [&](Ranks ranks) {
      int texts = 0;
      const auto gather = ranks.gather;
      ranks.gather = [&, gather](const std::string& text) {
        // Polls exchange at most one byte. The first text of rank 0 is that of the constructor, and the second the
        // report of its file, which it gathers when all ranks have written theirs.
        const bool all_have_written = ranks.rank == 0 && text.size() > 1 && ++texts == 2;
        if (all_have_written && when == "commit") ::raise(SIGSTOP);
        return gather(text);
      };
      CheckpointWriter writer({.folder = folder}, ranks);
      writer.start_save(step, small_model(ranks.rank, ranks.size, step), fixed_state(small_state(step)));
      const SaveOutcome outcome = *writer.finish();
      if (!outcome.committed && outcome.message.empty()) exit_code = 2;
      if (!outcome.committed && ranks.rank == 0) exit_code = std::max(exit_code, 1);
    });
  } catch (const std::exception&) {
    return 1;
  }
  return exit_code;
}

// A run that polls at every step and saves twice; the second save reuses the memory of the first. Measures what its
// thread waits for.
int save_timed(const std::string& folder, int64_t step, int64_t megabytes) {
  const TensorPiece piece = {"weights/master", {megabytes * 250'000}, 0, at::full({megabytes * 250'000}, 1.5f)};
  CheckpointWriter writer({.folder = folder}, {});
  ::raise(SIGSTOP);
  double copies[2], border = 0, total = 0;
  for (double& copy : copies) {
    const Clock::time_point begin = Clock::now();
    writer.start_save(step++, {piece}, fixed_state(""));
    copy = milliseconds_since(begin);
    std::optional<SaveOutcome> outcome;
    while (!outcome) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a step
      const Clock::time_point at_border = Clock::now();
      outcome = writer.try_finish();
      border = std::max(border, milliseconds_since(at_border));
    }
    total += milliseconds_since(begin);
    if (!outcome->committed) return 1;
  }
  answer("first_copy " + std::to_string(copies[0]) + " second_copy " + std::to_string(copies[1]) + " longest_border " +
         std::to_string(border) + " both_saves " + std::to_string(total));
  return 0;
}

void in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // for systems on which only ancestors may trace
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  answer("child " + std::to_string(child));
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
  }
  answer(WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status)));
}

std::string check(const std::string& folder) {
  const auto found = find_checkpoint({.folder = folder, .required = true}, {});
  const int64_t step = found->manifest.step;
  for (const std::string& note : found->notes) return "error " + note;
  const auto pieces = small_model(0, 1, step, /*filled=*/false);
  load_checkpoint(*found, pieces, {});
  const std::string difference = difference_from(pieces, 0, 1, step);
  if (!difference.empty() || found->manifest.state != small_state(step)) return "error contents differ: " + difference;
  return "step " + std::to_string(step);
}

void obey(const std::string& line) {
  std::istringstream words(line);
  std::string command, folder, when;
  int64_t step = 0;
  int number = 1;
  words >> command >> folder >> step >> number >> when;
  if (command == "save") {
    save_small_model(folder, number, step);
    answer("committed");
  } else if (command == "disturb") {
    in_child([&] { return save_disturbed(folder, step, number, when); });
  } else if (command == "time") {
    in_child([&] { return save_timed(folder, step, number); });
  } else if (command == "check") {
    answer(check(folder));
  } else if (command == "clean") {
    CheckpointWriter({.folder = folder}, {});
    answer("clean");
  } else {
    answer("error unknown command");
  }
}

}  // namespace
}  // namespace strata::trainer

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      strata::trainer::obey(line);
    } catch (const std::exception& error) {
      strata::trainer::answer(std::string("error ") + error.what());
    }
  }
}
