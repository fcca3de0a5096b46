// SPDX-License-Identifier: MIT
#include "trainer/data/matching_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/errors.h"

namespace strata::trainer {

std::vector<std::string> matching_files(const std::string& pattern, const std::string& advice) {
  std::error_code problem;
  if (std::filesystem::exists(pattern, problem)) return {pattern};  // the name of a file may contain a bracket
  glob_t found{};
  const int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (result != 0 && result != GLOB_NOMATCH)
    throw Error(ExitCode::data, pattern + ": a folder on the way cannot be read");
  if (paths.empty()) {
    throw Error(ExitCode::data, pattern + ": " + (problem ? problem.message() : "no such file") + "; " + advice);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace strata::trainer
