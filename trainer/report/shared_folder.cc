// SPDX-License-Identifier: MIT
#include "trainer/report/shared_folder.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

// The name of each such file is new, so that no host has the answer of an earlier look in a cache.
constexpr char kBegin[] = ".shared-";

std::string write_new_file(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kBegin)) fs::remove(entry.path());  // left by a killed start
  }
  std::random_device random;
  const std::string name = kBegin + std::to_string(random()) + "-" + std::to_string(random());
  OutputFile(folder + "/" + name).close();
  return name;
}

bool appears(const std::string& path, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::error_code ignored;  // a folder that cannot be looked into does not show the file
  while (!fs::exists(path, ignored)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace

void require_shared_folder(const std::string& folder, const std::string& host, const Ranks& ranks,
                           std::chrono::milliseconds patience) {
  if (ranks.size == 1) return;
  const std::string name =
      gather_results(ranks, [&] { return ranks.rank == 0 ? write_new_file(folder) : std::string(); })[0];
  const std::string path = folder + "/" + name;
  const std::vector<std::string> found = ranks.gather((appears(path, patience) ? '+' : '-') + host);
  if (ranks.rank == 0) {
    std::error_code ignored;  // the next start removes it
    fs::remove(path, ignored);
  }
  const auto is_lost = [](const std::string& answer) { return answer.starts_with('-'); };
  const auto lost = std::find_if(found.begin(), found.end(), is_lost);
  if (lost == found.end()) return;
  const auto others = std::count_if(lost + 1, found.end(), is_lost);
  throw Error(ExitCode::storage, "run.folder " + folder + ": rank " + std::to_string(lost - found.begin()) +
                                     " on host " + lost->substr(1) +
                                     (others > 0 ? " and " + std::to_string(others) + " more ranks do" : " does") +
                                     " not find the file that rank 0 on host " + found[0].substr(1) +
                                     " has just written there; expected one folder that all hosts share, such as one "
                                     "of a network file system");
}

}  // namespace strata::trainer
