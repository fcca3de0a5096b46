// SPDX-License-Identifier: MIT
#include "base/files/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files/file_io.h"

namespace strata {
namespace {

constexpr char kNoRecords[] = "nothing is written to it";
constexpr char kOneRecord[] = "this record is lost, and later ones are tried without another warning";

}  // namespace

RecordFile::RecordFile(const std::string& path, uint64_t keep, Warn warn)
    : path_(path), end_(keep), warn_(std::move(warn)) {
  ignore_file_size_signal();
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) {
    fail("open", kNoRecords);
  } else if (::ftruncate(file_, end_) != 0) {
    fail("ftruncate", kNoRecords);
    ::close(file_);
    file_ = -1;
  }
}

RecordFile::~RecordFile() {
  if (file_ >= 0) ::close(file_);
}

void RecordFile::append(std::string_view record) {
  if (file_ < 0) return;
  for (size_t done = 0; done < record.size();) {
    const ssize_t written = ::pwrite(file_, record.data() + done, record.size() - done, end_ + done);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;  // POSIX does not allow it, and trying again might never end
    if (written <= 0) {
      fail("write", kOneRecord);
      if (::ftruncate(file_, end_) != 0) fail("ftruncate", kOneRecord);
      return;
    }
    done += written;
  }
  end_ += record.size();
}

void RecordFile::fail(const char* call, const char* lost) {
  if (warn_) warn_(path_ + ": " + call + " failed: " + std::strerror(errno) + "; " + lost);
  warn_ = nullptr;
}

}  // namespace strata
