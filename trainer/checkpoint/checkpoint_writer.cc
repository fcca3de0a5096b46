// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <utility>

#include "base/digest.h"
#include "base/errors.h"
#include "base/files/file_io.h"
#include "trainer/checkpoint/checkpoint_manifest.h"
#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFailures = 3;

// The interval at which finish() checks whether a rank's file is written. All ranks gather after each check, and no
// rank may delay the others for as long as run.timeout.
constexpr std::chrono::milliseconds kLook(100);

// The first character of a gathered result.
constexpr char kDone = '+', kFailed = '-';

std::string new_run_id() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 16; ++i) id += kDigits[random() % 16];
  return id;
}

// True for temporary names of this and of earlier process groups: step-00001000.tmp-<id>, latest.tmp-<id>.
bool is_temporary(const fs::path& path) { return path.filename().string().find(".tmp-") != std::string::npos; }

std::string_view bytes_of(const at::Tensor& data) {
  return {static_cast<const char*>(data.const_data_ptr()), static_cast<size_t>(data.nbytes())};
}

// Throws unless rank 0 finds each file with the bytes that its rank has written. If the hosts do not share run.folder,
// this is found before the commit and not when the run resumes.
void require_files(const std::string& folder, const std::vector<RankReport>& reports) {
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const StoredFile& file = reports[rank].file;
    const std::string path = folder + "/" + file.name;
    std::string found;
    try {
      const uint64_t bytes = InputFile(path).bytes();
      if (bytes == file.bytes) continue;
      found = path + " has " + std::to_string(bytes) + " bytes";
    } catch (const Error& error) {
      found = error.what();
    }
    throw Error(ExitCode::storage, "rank " + std::to_string(rank) + " has written " + std::to_string(file.bytes) +
                                       " bytes of " + file.name + ", and on rank 0: " + found +
                                       "; run.folder must be one folder that all hosts share");
  }
}

// Returns the reports of all ranks. Throws Error (storage) with the failures of ranks that did not write their files.
std::vector<RankReport> parse_reports(const std::vector<std::string>& results) {
  std::string failures;
  std::vector<RankReport> reports;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const std::string text = results[rank].substr(1);
    if (results[rank][0] == kDone) {
      reports.push_back(parse_rank_report(text));
    } else {
      failures += (failures.empty() ? "rank " : "; rank ") + std::to_string(rank) + ": " + text;
    }
  }
  if (!failures.empty()) throw Error(ExitCode::storage, failures);
  return reports;
}

}  // namespace

CheckpointWriter::CheckpointWriter(Options options, Ranks ranks)
    : options_(std::move(options)), ranks_(std::move(ranks)), last_step_(options_.resumed_step) {
  if (options_.keep < 2) {
    throw Error(ExitCode::configuration, "checkpoint.keep is " + std::to_string(options_.keep) +
                                             ", expected at least 2: when the newest is damaged, one must be left");
  }
  run_ = gather_results(ranks_, [&] {
    if (ranks_.rank != 0) return std::string();
    fs::create_directories(options_.folder);
    sync_folder_of(options_.folder);  // after a loss of power, checkpoints are found only in a folder that has its name
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      if (is_temporary(entry.path())) fs::remove_all(entry.path());
    }
    return new_run_id();
  })[0];
}

CheckpointWriter::~CheckpointWriter() = default;  // the future of std::async waits for its thread

std::string CheckpointWriter::unfinished() const { return path(checkpoint_folder_name(step_) + ".tmp-" + run_); }

void CheckpointWriter::start_save(int64_t step, const std::vector<TensorPiece>& pieces, StateText state) {
  if (in_flight()) throw Error(ExitCode::internal, "a save was started before the one before was finished");
  if (step == last_step_) return;
  snapshot_.take(pieces);
  step_ = step;
  state_ = std::move(state);
  phase_ = Phase::writing;
  start_task([this] { return write_rank_file(); });
}

void CheckpointWriter::start_task(std::function<std::string()> work) {
  result_.clear();
  try {
    task_ = std::async(std::launch::async, std::move(work));
  } catch (const std::exception& error) {  // the other ranks wait for this result in any case
    result_ = kFailed + std::string("no thread could be started: ") + error.what();
  }
}

std::string CheckpointWriter::write_rank_file() {
  RankReport report;
  SafetensorsHeader header;
  header.metadata = {
      {"step", std::to_string(step_)}, {"rank", std::to_string(ranks_.rank)}, {"ranks", std::to_string(ranks_.size)}};
  std::map<std::string, const TensorPiece*> pieces;
  for (const TensorPiece& piece : snapshot_.pieces()) {
    if (piece.data.numel() == 0) continue;
    if (!pieces.emplace(piece.tensor, &piece).second) {
      throw Error(ExitCode::internal, piece.tensor + ": two pieces on one rank");
    }
    const std::string dtype = dtype_name(piece.data);
    header.entries.push_back({.name = piece.tensor, .dtype = dtype, .shape = {piece.data.numel()}});
    report.tensors[piece.tensor] = {dtype, piece.shape, {{0, piece.offset, piece.data.numel()}}};
  }

  fs::create_directory(unfinished());  // the first rank creates it
  const std::string name = rank_file_name(ranks_.rank);
  OutputFile file(unfinished() + "/" + name);
  file.write(place_safetensors(header));
  snapshot_.wait();
  for (const SafetensorsEntry& entry : header.entries) {
    const TensorPiece& piece = *pieces.at(entry.name);
    file.write(bytes_of(piece.data));
    if (!entry.name.ends_with(kMaster) || piece.data.scalar_type() != at::kFloat) continue;
    report.sums[entry.name] = sum_of_piece(piece.data.const_data_ptr<float>(), piece.data.numel(), piece.offset);
  }
  file.close();
  report.file = {name, file.bytes(), file.sha256()};
  return to_text(report);
}

std::optional<SaveOutcome> CheckpointWriter::finish(const std::function<void()>& heartbeat) {
  std::optional<SaveOutcome> outcome;
  while (in_flight() && !outcome) {
    if (result_.empty()) task_.wait_for(kLook);
    outcome = try_finish();
    heartbeat();
  }
  return outcome;
}

std::optional<SaveOutcome> CheckpointWriter::try_finish() {
  if (!in_flight()) return std::nullopt;
  if (result_.empty() && task_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    try {
      result_ = kDone + task_.get();
    } catch (const std::exception& error) {
      result_ = kFailed + std::string(error.what());
    }
  }
  // A poll exchanges one byte of each rank, because there may be one in every step. The results, which in the first
  // phase are the reports of all files, are gathered once, when every rank has one.
  const std::vector<std::string> ended = ranks_.gather(result_.substr(0, 1));
  if (std::any_of(ended.begin(), ended.end(), [](const std::string& mark) { return mark.empty(); })) {
    return std::nullopt;
  }
  const std::vector<std::string> results = ranks_.gather(result_);
  if (phase_ == Phase::writing) {
    start_commit(results);
    return std::nullopt;
  }

  phase_ = Phase::idle;
  const std::string name = "checkpoint of step " + std::to_string(step_), said = results[0].substr(1);
  if (results[0][0] == kDone) {
    failures_in_a_row_ = 0;
    last_step_ = step_;
    return SaveOutcome{step_, /*committed=*/true, said.empty() ? "" : name + " saved, but not tidied up: " + said,
                       weights_sha256_};
  }
  if (++failures_in_a_row_ == kMostFailures) {
    throw Error(ExitCode::storage,
                std::to_string(kMostFailures) + " saves in a row failed; the last, " + name + ": " + said);
  }
  return SaveOutcome{step_, /*committed=*/false, name + " not saved, older ones are as they were: " + said};
}

// Called after all ranks have written their files or failed to.
void CheckpointWriter::start_commit(const std::vector<std::string>& reports) {
  phase_ = Phase::committing;
  result_ = kDone;  // the result of all ranks but rank 0
  if (ranks_.rank != 0) return;
  const auto clean_up = [this] {
    std::error_code ignored;  // the first error is reported; remaining files are removed at the next start
    fs::remove_all(unfinished(), ignored);
  };
  start_task([this, reports, clean_up] {
    try {
      return commit(reports);
    } catch (...) {
      clean_up();
      throw;
    }
  });
  if (!result_.empty()) clean_up();
}

std::string CheckpointWriter::commit(const std::vector<std::string>& results) {
  write_manifest(parse_reports(results));
  rename_to_committed();
  return tidy_up();
}

void CheckpointWriter::write_manifest(const std::vector<RankReport>& reports) {
  require_files(unfinished(), reports);
  Manifest manifest = merge_reports(reports);
  manifest.run = run_;
  manifest.step = step_;
  weights_sha256_ = weights_sha256(manifest, reports);
  manifest.state = state_(weights_sha256_);
  const std::string text = to_text(manifest);
  if (text.size() > kLargestManifest) {
    throw Error(ExitCode::storage, "a manifest of " + std::to_string(text.size()) +
                                       " bytes cannot be read again, at most " + std::to_string(kLargestManifest) +
                                       " bytes can; fewer ranks need a smaller one");
  }
  OutputFile file(unfinished() + "/" + kManifestName);
  file.write(text);
  file.close();
  sync_folder(unfinished());
}

void CheckpointWriter::rename_to_committed() {
  const std::string committed = path(checkpoint_folder_name(step_));
  // A checkpoint of this step may exist if it could not be loaded; otherwise training would not have reached this step
  // again.
  if (fs::exists(fs::symlink_status(committed))) set_aside(step_);
  std::erase(options_.rejected, step_);  // also if somebody has moved it away: from here on this step's is a good one
  rename_path(unfinished(), committed);
  try {
    sync_folder(options_.folder);
  } catch (const Error&) {
    rename_path(committed, unfinished());  // it may not be on the disk, so it is not committed
    throw;
  }
}

std::string CheckpointWriter::tidy_up() {
  std::string problems;
  // None of these may prevent another: some file systems have no symbolic links, and `latest` is a folder after
  // `cp -rL`.
  for (const auto tidy :
       {&CheckpointWriter::set_rejected_aside, &CheckpointWriter::purge, &CheckpointWriter::point_to_newest}) {
    try {
      (this->*tidy)();
    } catch (const std::exception& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  return problems;
}

void CheckpointWriter::point_to_newest() {
  const std::string hint = path("latest.tmp-" + run_);
  fs::remove(hint);  // left by a call that failed
  fs::create_symlink(checkpoint_folder_name(step_), hint);
  rename_path(hint, path("latest"));
}

// Keeps a rejected checkpoint under a name that is not a checkpoint's. No save removes it, because only a person can
// know that nothing in it is of use.
void CheckpointWriter::set_aside(int64_t step) {
  const std::string checkpoint = path(checkpoint_folder_name(step));
  rename_path(checkpoint, checkpoint + ".rejected-" + run_);
  std::erase(options_.rejected, step);
}

bool CheckpointWriter::is_rejected(int64_t step) const {
  return std::find(options_.rejected.begin(), options_.rejected.end(), step) != options_.rejected.end();
}

void CheckpointWriter::set_rejected_aside() {
  for (const int64_t step : list_checkpoints(options_.folder)) {
    if (is_rejected(step)) set_aside(step);
  }
}

// Keeps the newest checkpoints, among which milestones count, and older milestones. The others are renamed before they
// are removed, so that after a kill a folder with a checkpoint's name is complete. A power cut may undo the rename and
// keep what was removed; such a folder is refused when it is read.
void CheckpointWriter::purge() {
  int64_t kept = 0;
  for (const int64_t step : list_checkpoints(options_.folder)) {
    if (is_rejected(step) || kept++ < options_.keep) continue;
    if (options_.keep_every > 0 && step % options_.keep_every == 0) continue;
    const std::string name = path(checkpoint_folder_name(step));
    rename_path(name, name + ".tmp-" + run_);
    fs::remove_all(name + ".tmp-" + run_);
  }
}

}  // namespace strata::trainer
