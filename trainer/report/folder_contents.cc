// SPDX-License-Identifier: MIT
#include "trainer/report/folder_contents.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/errors.h"
#include "trainer/report/metrics_line.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";

// True for error.json of a run that failed before it wrote resolved.yaml: the launcher writes it for a killed rank.
bool is_report(const fs::path& path) {
  if (path.filename() != "error.json" || !fs::is_regular_file(fs::symlink_status(path))) return false;
  std::ifstream file(path);
  std::string text(1 << 16, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text.starts_with('{') && text.find("\"code\":") != text.npos && text.find("\"phase\":") != text.npos;
}

// Returns the names that a run would replace. It would keep a tokenizer.json.
std::vector<std::string> replaceable(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name == "tokenizer.json" || is_report(entry.path())) continue;
    const bool is_run_file = std::find(std::begin(kRunFiles), std::end(kRunFiles), name) != std::end(kRunFiles);
    if (is_run_file || name.starts_with(kEventFiles)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

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
    contents.has_configuration = fs::exists(fs::symlink_status(folder + "/resolved.yaml"));
    if (!contents.has_configuration) {
      contents.foreign = replaceable(folder);
      return contents;
    }
    read_metrics(folder + "/metrics.jsonl", contents);
    read_checkpoints(folder + "/checkpoints", contents);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::storage, "run.folder " + folder + ": cannot be read: " + error.code().message());
  }
  return contents;
}

}  // namespace strata::trainer
