// SPDX-License-Identifier: MIT
#include "sharding/process/failure.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/crash_stack.h"
#include "base/text/printable.h"

namespace strata::sharding {
namespace {

// Signal handlers read these variables, so they are plain memory that is written before has_folder is set, without
// allocation or locks.
constexpr size_t kPathBytes = 4096;
char report_path[kPathBytes];     // <folder>/error.json
char temporary_path[kPathBytes];  // the file that is linked to report_path
std::atomic<bool> has_folder{false};
std::atomic<int> report_rank{0};
std::atomic<int64_t> report_step{0};
std::atomic<const char*> report_phase{"start"};

// Ranks above 0 wait this long before they print an error that nobody has reported. If rank 0 fails for the same
// reason, it has printed by then, and its exit ends the other ranks.
constexpr std::chrono::seconds kBeforeOthersSpeak(1);

std::string error_text(int error) { return std::error_code(error, std::generic_category()).message(); }

bool write_all(int file, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// Writes a file that must not exist yet, and removes it again after an error. Returns 0, or the errno of the call that
// failed. Async-signal-safe.
int write_new(const char* path, const char* text, size_t bytes) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  int error = write_all(file, text, bytes) && fsync(file) == 0 ? 0 : errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) unlink(path);
  return error;
}

// Creates error.json only if it does not exist: link(2) fails otherwise, and no reader ever sees an incomplete file.
// Returns 0, or the errno of the call that failed. Async-signal-safe.
int write_first(const char* temporary, const char* path, const char* text, size_t bytes) {
  unlink(temporary);  // left by a crash of an earlier process of this number
  int error = write_new(temporary, text, bytes);
  if (error == 0 && link(temporary, path) != 0) error = errno;
  unlink(temporary);
  // Some file systems have no links, such as FAT, SMB and some of FUSE. O_EXCL then keeps the first report, but a
  // reader may see a part of it.
  const bool no_links = error == EPERM || error == ENOSYS || error == EOPNOTSUPP;
  return no_links ? write_new(path, text, bytes) : error;
}

// Builds a line of text in a fixed buffer, because signal handlers must not allocate.
class FixedText {
 public:
  FixedText& operator<<(const char* text) {
    while (*text != '\0' && size_ + 1 < sizeof(text_)) text_[size_++] = *text++;
    return *this;
  }
  FixedText& operator<<(int64_t number) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    uint64_t left = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    do {
      digits[--at] = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left != 0);
    if (number < 0) digits[--at] = '-';
    return *this << &digits[at];
  }
  const char* data() const { return text_; }
  size_t size() const { return size_; }

 private:
  char text_[1024];
  size_t size_ = 0;
};

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "invalid memory access (SIGSEGV)";
    case SIGABRT:
      return "abort (SIGABRT)";
    case SIGFPE:
      return "arithmetic error (SIGFPE)";
    case SIGBUS:
      return "access beyond the end of a mapped file (SIGBUS)";
    case SIGILL:
      return "illegal instruction (SIGILL)";
  }
  return "signal";
}

void report_crash(int signal) {
  const int64_t rank = report_rank, step = report_step;
  const char* phase = report_phase;
  FixedText line;
  line << "rank " << rank << ": " << name_of(signal) << " in step " << step << ", " << phase << "\n";
  write_all(STDERR_FILENO, line.data(), line.size());
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  if (has_folder) {
    FixedText json;  // names and phases are literals of Strata: nothing needs escaping
    json << "{\"code\": " << int64_t{128} + signal << ", \"rank\": " << rank << ", \"step\": " << step
         << ", \"phase\": \"" << phase << "\", \"message\": \"" << name_of(signal)
         << "\", \"hint\": \"the backtrace is on the standard error of this rank\"}\n";
    write_first(temporary_path, report_path, json.data(), json.size());
  }
  raise(signal);  // SA_RESETHAND has restored the default action, which ends the process
}

// True if any rank has written a report.
bool has_report() { return has_folder && access(report_path, F_OK) == 0; }

}  // namespace

bool report_failure(const std::string& folder, const Failure& failure) {
  const nlohmann::ordered_json json = {{"code", static_cast<int>(failure.code)},
                                       {"rank", failure.rank},
                                       {"step", failure.step},
                                       {"phase", failure.phase},
                                       {"message", failure.message},
                                       {"hint", failure.hint}};
  // Texts may contain bytes of users' files; bytes that are not UTF-8 are replaced.
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::string path = folder + "/error.json";
  const std::string temporary = path + "." + std::to_string(failure.rank) + "." + std::to_string(getpid()) + ".tmp";
  const int error = write_first(temporary.c_str(), path.c_str(), text.data(), text.size());
  if (error != 0 && error != EEXIST)
    std::fprintf(stderr, "cannot write %s: %s\n", path.c_str(), error_text(error).c_str());
  return error == 0;
}

void remove_stale_report(const std::string& folder) {
  const std::string path = folder + "/error.json";
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    throw Error(ExitCode::storage, "cannot remove " + path + " of an earlier run: " + error_text(errno));
}

void set_report_folder(const std::string& folder) {
  has_folder = false;
  const std::string path = folder + "/error.json", temporary = path + ".crash." + std::to_string(getpid()) + ".tmp";
  if (temporary.size() >= kPathBytes)
    throw Error(ExitCode::storage, "the path of the run's folder is too long: " + folder);
  std::memcpy(report_path, path.c_str(), path.size() + 1);
  std::memcpy(temporary_path, temporary.c_str(), temporary.size() + 1);
  has_folder = true;
}

void set_report_rank(int rank) { report_rank = rank; }

void set_position(int64_t step, const char* phase) {
  report_step = step;
  report_phase = phase;
}

Failure failure_here(ExitCode code, const std::string& message, const std::string& hint) {
  return {code, report_rank, report_step, report_phase.load(), message, hint};
}

bool report_failure(const Failure& failure) {
  if (!has_folder) return false;
  const std::string path = report_path;
  return report_failure(path.substr(0, path.rfind('/')), failure);
}

void print_failure(const Failure& failure) {
  if (!report_failure(failure)) {
    if (failure.rank > 0 && !has_report()) std::this_thread::sleep_for(kBeforeOthersSpeak);
    if (has_report()) return;
  }
  std::fprintf(stderr, "strata: rank %d, step %lld, %s: %s\n", failure.rank, static_cast<long long>(failure.step),
               failure.phase.c_str(), printable_lines(failure.message).c_str());
}

void install_crash_handlers() {
  static const auto* const thread_stack = new CrashStack;  // never deleted: destructors at exit may crash too
  static_cast<void>(thread_stack);
  void* frame;
  backtrace(&frame, 1);  // loads libgcc now, because the first call allocates, which a handler must not do
  struct sigaction action = {};
  action.sa_handler = report_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace strata::sharding
