// SPDX-License-Identifier: MIT
// Many short runs of a program with LibTorch, whose start takes longer than such a run.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/end_process.h"

namespace strata::tests {

constexpr unsigned kMostSeconds = 60;  // most seconds of a run

// Returns the exit code of `run` with the words of a command. If the only word after the program is --runs, a process
// is forked for each line of standard input, with a list in JSON: the files for its output and its errors, and its
// words. A line says how the process ended: its exit code, or the negative number of the signal. A run that does not
// end within kMostSeconds is ended by SIGALRM. tests/trainer/data/forked_runs.py is the other side.
inline int one_or_forked_runs(std::vector<std::string> words, int (*run)(std::vector<std::string>)) {
  if (words.size() != 2 || words[1] != "--runs") return run(std::move(words));
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> given = nlohmann::json::parse(line);
    const pid_t process = fork();
    if (process < 0) return 1;
    if (process == 0) {
      alarm(kMostSeconds);
      for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        const int file = open(given[stream - STDOUT_FILENO].c_str(), O_WRONLY | O_CREAT, 0600);
        if (file < 0 || dup2(file, stream) < 0) _exit(1);
      }
      given.erase(given.begin());
      given[0] = words[0];
      end_process(run(std::move(given)));
    }
    int status = 0;
    if (waitpid(process, &status, 0) != process) return 1;
    std::printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace strata::tests
