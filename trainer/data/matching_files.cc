// SPDX-License-Identifier: MIT
#include "trainer/data/matching_files.h"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/errors.h"

namespace strata::trainer {
namespace {

// glob() passes no pointer to the function that it calls for a folder that it cannot read.
thread_local std::string unread_folder;

int note_folder(const char* folder, int reason) {
  unread_folder = std::string(folder) + ": " + std::strerror(reason);
  return 1;  // glob() stops
}

}  // namespace

std::vector<std::string> matching_files(const std::string& pattern, const std::string& advice) {
  std::error_code problem;
  if (std::filesystem::exists(pattern, problem)) return {pattern};  // the name of a file may contain a bracket
  glob_t found{};
  const int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, note_folder, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (result == GLOB_ABORTED) throw Error(ExitCode::data, pattern + ": " + unread_folder + "; " + advice);
  if (paths.empty()) {
    throw Error(ExitCode::data, pattern + ": " + (problem ? problem.message() : "no such file") + "; " + advice);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace strata::trainer
