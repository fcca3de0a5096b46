// SPDX-License-Identifier: MIT
#include "trainer/report/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/joined.h"
#include "base/text/printable.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kLock[] = ".lock";
constexpr int kLooks = 500, kLooksAtAName = 5;
constexpr std::chrono::milliseconds kBetweenLooks(2);

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitCode::storage, "run.folder " + path + ": " + what);
}

// Returns what the holder of the lock has written about itself.
std::string holder_of(int lock) {
  char holder[64];
  const ssize_t bytes = ::pread(lock, holder, sizeof holder, 0);
  return {holder, static_cast<size_t>(std::max<ssize_t>(bytes, 0))};
}

// Returns 0 or the errno. A run writes its name at once after it got the lock, and `report --watch` holds the lock for
// an instant without a name, so a holder without one is waited for. A killed run leaves its name, so the name of the
// holder is only one that stays for some looks.
int take_lock(int lock) {
  std::string name;
  for (int look = 1, since = 1;; ++look) {
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) return 0;
    const int error = errno;
    const std::string now = holder_of(lock);
    if (now != std::exchange(name, now)) since = look;
    if (error != EWOULDBLOCK || look == kLooks || (!now.empty() && look - since == kLooksAtAName)) return error;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void make_folder(const std::string& path) {
  const auto refuse_link = [&](const std::string& name) {
    if (fs::is_symlink(fs::symlink_status(name))) {
      refuse(path, (name == path ? "is" : name + " is") + std::string(" a symbolic link; name the folder it leads to"));
    }
  };
  try {
    refuse_link(path);
    if (fs::exists(path) && !fs::is_directory(path)) refuse(path, "is not a folder");
    create_folders(path);
    for (const char* name : {"/checkpoints", "/ledger"}) refuse_link(path + name);
  } catch (const fs::filesystem_error& error) {
    refuse(path, "cannot be made or read: " + error.code().message());
  }
}

}  // namespace

Start decide_start(const StartQuestion& question, const std::string& path) {
  const FolderContents& found = question.found;
  if (!found.foreign.empty()) {
    if (question.overwrite) return Start::replace;
    throw Error(ExitCode::configuration, "run.folder " + path + ": has " + joined(found.foreign, ", ") +
                                             ", which a run would replace, and no resolved.yaml; expected a run's "
                                             "folder, or one without these names\nGive another run.folder, move them "
                                             "away, or run.overwrite=true to remove them.");
  }
  if (!found.holds_run()) return Start::fresh;
  const bool lost = found.last_checkpoint > 0 && !found.has_checkpoint;
  const bool same = question.difference.empty() && question.resume;
  if (same && !lost) return Start::resume;
  if (question.overwrite) return Start::replace;
  const std::string problem =
      !question.difference.empty() ? "holds another run, which differs in what may not change: " + question.difference
      : !question.resume           ? "holds this run already, and checkpoint.resume is never"
                         : "holds this run, which has saved after step " + std::to_string(found.last_checkpoint) +
                               ", and no checkpoint; expected one in " + path +
                               "/checkpoints: put back what was moved, or mount its disk";
  throw Error(ExitCode::configuration, "run.folder " + path + ": " + problem +
                                           "\nGive another run.folder, or run.overwrite=true to replace it.");
}

std::string start_line(Start start, const FolderContents& found) {
  if (start == Start::fresh) return "starts at step 0";
  if (start == Start::replace) return "starts at step 0, in place of the run that the folder held";
  if (found.has_checkpoint) return "";
  return "starts at step 0 again: the run in this folder ended after step " + std::to_string(found.last_step) +
         ", before its first checkpoint was finished";
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  // A trailing slash, as in `runs/name/`, would follow a symbolic link runs/name.
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (path_.empty()) refuse(path_, "is empty");
  make_folder(path_);

  const std::string name = this->path(kLock);
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0) refuse(path_, std::string("cannot be written: ") + std::strerror(errno));
  const int lock_error = take_lock(lock_);
  if (lock_error == ENOSYS || lock_error == EOPNOTSUPP) {  // Lustre mounted without flock
    std::fprintf(stderr, "warning: run.folder %s: its file system has no locks; no other run may use this folder\n",
                 printable_utf8(path_).c_str());
  } else if (lock_error != 0) {
    const std::string holder = holder_of(lock_);
    ::close(lock_);
    if (lock_error != EWOULDBLOCK) refuse(path_, std::string("cannot be locked: ") + std::strerror(lock_error));
    refuse(path_, "is in use by another run, " + (holder.empty() ? "which has not written its name" : holder));
  }
  char host[32] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string holder = "process " + std::to_string(::getpid()) + " on " + host;
  // Only writing a file shows whether there is space for one.
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, holder.data(), holder.size(), 0) != ssize_t(holder.size()) ||
      ::fsync(lock_) != 0) {
    const int reason = errno;
    ::close(lock_);
    refuse(path_, std::string("cannot be written: ") + std::strerror(reason));
  }
}

// The name goes with the lock. Otherwise a run that starts could be called by the name of this one.
RunFolder::~RunFolder() {
  [[maybe_unused]] const int ignored = ::ftruncate(lock_, 0);
  ::close(lock_);
}

std::string RunFolder::path(std::string_view name) const { return path_ + "/" + std::string(name); }

void RunFolder::clear() const {
  try {
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kEventFiles) || is_kept_report(name)) fs::remove(entry.path());
    }
    for (const char* name : kRunFiles) fs::remove_all(path(name));
  } catch (const fs::filesystem_error& error) {
    refuse(path_, std::string("cannot be cleared: ") + error.what());
  }
}

void RunFolder::write(std::string_view name, std::string_view text) const { replace_file(path(name), text); }

}  // namespace strata::trainer
