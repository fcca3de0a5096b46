// SPDX-License-Identifier: MIT
#include "trainer/report/folder_contents.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/errors.h"
#include "trainer/report/metrics_line.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr size_t kDigitsOfStep = 8;           // step-00001200: what is named otherwise is no checkpoint
constexpr uint64_t kBytesWithoutEvents = 64;  // the head of an event file has 42 bytes, and the events of a step more

// True for a report of a run that failed before it wrote resolved.yaml: the launcher writes it for a killed rank.
bool is_report(const fs::path& path) {
  const std::string name = path.filename();
  if ((name != "error.json" && !is_kept_report(name)) || !fs::is_regular_file(fs::symlink_status(path))) return false;
  std::ifstream file(path);
  std::string text(1 << 16, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text.starts_with('{') && text.find("\"code\":") != text.npos && text.find("\"phase\":") != text.npos;
}

// True for an empty file or folder, such as the mount point of another disk.
bool holds_nothing(const fs::directory_entry& entry) {
  return !entry.is_symlink() && (entry.is_directory() || entry.is_regular_file()) && fs::is_empty(entry.path());
}

// Returns the names of what a run would replace. It would keep a tokenizer.json.
std::vector<std::string> replaceable(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_run_file = std::find(std::begin(kRunFiles), std::end(kRunFiles), name) != std::end(kRunFiles);
    if (!is_run_file && !name.starts_with(kEventFiles) && !is_kept_report(name)) continue;
    if (name == "tokenizer.json" || is_report(entry.path()) || holds_nothing(entry)) continue;
    found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void read_metrics(const std::string& path, FolderContents& contents) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kFirstLineBegin)) contents.has_records = true;
    if (file.eof()) break;  // a crash cut this line
    contents.last_step = std::max(contents.last_step, step_of_line(line).value_or(0));
    contents.last_checkpoint = checkpoint_of_line(line).value_or(contents.last_checkpoint);
  }
}

void read_events(const std::string& folder, FolderContents& contents) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(kEventFiles) || !entry.is_regular_file()) continue;
    if (entry.file_size() > kBytesWithoutEvents) contents.has_records = true;
  }
}

void read_checkpoints(const std::string& path, FolderContents& contents) {
  if (!fs::is_directory(path)) return;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kStep) || name.size() < kStep.size() + kDigitsOfStep) continue;
    uint64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
    if (error != std::errc() || *end != '\0') continue;
    contents.has_checkpoint = true;
    contents.newest_checkpoint = std::max(contents.newest_checkpoint, static_cast<int64_t>(step));
  }
}

}  // namespace

bool is_kept_report(const std::string& name) {
  constexpr std::string_view kBegin = "error-", kEnd = ".json";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) return false;
  return name.find_first_not_of("0123456789", kBegin.size()) == name.size() - kEnd.size();
}

FolderContents contents_of(const std::string& folder) {
  FolderContents contents;
  try {
    contents.has_configuration = fs::exists(fs::symlink_status(folder + "/resolved.yaml"));
    if (!contents.has_configuration) {
      contents.foreign = replaceable(folder);
      return contents;
    }
    read_metrics(folder + "/metrics.jsonl", contents);
    read_events(folder, contents);
    read_checkpoints(folder + "/checkpoints", contents);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::storage, "run.folder " + folder + ": cannot be read: " + error.code().message());
  }
  return contents;
}

}  // namespace strata::trainer
