// SPDX-License-Identifier: MIT
#include "trainer/report/folder_contents.h"

#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/errors.h"
#include "trainer/report/metrics_line.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";

bool is_there(const std::string& path) { return fs::exists(fs::symlink_status(path)); }

void read_metrics(const std::string& path, FolderContents& contents) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto step = step_of_line(line);
    if (!step) break;
    contents.last_step = *step;
    if (line.find("\"weights_sha256\":") != std::string::npos) contents.last_save = *step;
  }
}

void read_checkpoints(const std::string& path, FolderContents& contents) {
  if (!fs::is_directory(path)) return;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kStep)) continue;
    const bool finished = name.find_first_not_of("0123456789", kStep.size()) == std::string::npos;
    (finished ? contents.has_checkpoint : contents.has_unfinished) = true;
  }
}

}  // namespace

FolderContents contents_of(const std::string& folder) {
  FolderContents contents;
  try {
    for (const char* name : {"/resolved.yaml", "/metrics.jsonl", "/checkpoints"}) {
      contents.holds_run = contents.holds_run || is_there(folder + name);
    }
    read_metrics(folder + "/metrics.jsonl", contents);
    read_checkpoints(folder + "/checkpoints", contents);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::storage, "run.folder " + folder + ": cannot be read: " + error.code().message());
  }
  return contents;
}

}  // namespace strata::trainer
