// SPDX-License-Identifier: MIT
#include "kernels/runtime/trusted_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace strata::kernels {
namespace {

// A program and its packages may have been unpacked by another user. Whoever owns the program can change what it does.
uid_t owner_of_program() {
  struct stat program;
  return stat("/proc/self/exe", &program) == 0 ? program.st_uid : geteuid();
}

std::string why_not_trusted(int descriptor, struct stat& status) {
  if (fstat(descriptor, &status) != 0) return std::string("it cannot be read (") + std::strerror(errno) + ")";
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != geteuid() && status.st_uid != 0 && status.st_uid != owner_of_program()) {
    return "it belongs to user " + std::to_string(status.st_uid) + ", expected user " + std::to_string(geteuid()) +
           ", root or the owner of the program";
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users can write it, expected chmod go-w";
  return "";
}

}  // namespace

// O_NONBLOCK: a pipe would wait for a writer.
TrustedFile::TrustedFile(const std::filesystem::path& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
  const int error = errno;
  TORCH_CHECK_VALUE(descriptor_ >= 0 || error != ELOOP, "it is a symbolic link, expected a file");
  TORCH_CHECK_VALUE(descriptor_ >= 0, "it cannot be opened (", std::strerror(error), ")");
  struct stat status;
  if (const std::string problem = why_not_trusted(descriptor_, status); !problem.empty()) {
    close(descriptor_);  // no destructor runs
    TORCH_CHECK_VALUE(false, problem);
  }
  bytes_ = static_cast<size_t>(status.st_size);
}

TrustedFile::~TrustedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string TrustedFile::read() const {
  std::string content(bytes_, '\0');
  size_t read = 0;
  while (read < content.size()) {
    const ssize_t count = pread(descriptor_, content.data() + read, content.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    TORCH_CHECK_VALUE(count >= 0, "it cannot be read (", std::strerror(errno), ")");
    if (count == 0) break;
    read += static_cast<size_t>(count);
  }
  content.resize(read);
  return content;
}

}  // namespace strata::kernels
