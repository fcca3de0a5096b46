// SPDX-License-Identifier: MIT
#include "base/files/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace strata {
namespace {

constexpr size_t kBuffer = 1 << 20;  // one write for many tensors: most have a few hundred bytes

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

}  // namespace

int64_t read_at(int file, uint64_t offset, void* into, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file, static_cast<char*>(into) + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return static_cast<int64_t>(done);
}

void throw_storage_error(std::string_view call, const std::string& path) {
  const int reason = errno;
  throw Error(ExitCode::storage, std::string(call) + " failed: " + path + ": " + std::strerror(reason));
}

void ignore_file_size_signal() {
  static const auto before = std::signal(SIGXFSZ, SIG_IGN);
  (void)before;
}

OutputFile::OutputFile(const std::string& path) : path_(path) {
  ignore_file_size_signal();
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) throw_storage_error("open for writing", path);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);  // still open only after an error, which is already thrown
}

void OutputFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) {
    write_through(buffer_);
    buffer_.clear();
  }
  if (bytes.size() > kBuffer) {
    write_through(bytes);
  } else {
    buffer_.append(bytes);
  }
}

void OutputFile::write_through(std::string_view bytes) {
  hash_.update(bytes.data(), bytes.size());
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;  // POSIX does not allow it, and trying again might never end
    if (written <= 0) throw_storage_error("write", path_);
    bytes.remove_prefix(written);
  }
}

void OutputFile::close() {
  write_through(buffer_);
  buffer_.clear();
  // An error of fdatasync is final: the kernel may have dropped the pages, and a second call would report success.
  if (::fdatasync(file_) != 0) throw_storage_error("fdatasync", path_);
  if (::close(std::exchange(file_, -1)) != 0) throw_storage_error("close", path_);
  sha256_ = hash_.hex();
}

InputFile::InputFile(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);  // opening a pipe would block
  if (file_ < 0 && errno == ELOOP) {
    throw Error(ExitCode::storage, path + ": is a symbolic link, and none is followed here; name or copy its target");
  }
  if (file_ < 0) throw_storage_error("open for reading", path);
  struct stat status;
  const bool known = ::fstat(file_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const int reason = errno;
    ::close(file_);
    errno = reason;
    if (!known) throw_storage_error("stat", path);
    throw Error(ExitCode::storage, path + ": expected a regular file");
  }
  bytes_ = status.st_size;
}

InputFile::~InputFile() { ::close(file_); }

void InputFile::read(uint64_t offset, void* into, size_t bytes) const {
  const int64_t got = read_at(file_, offset, into, bytes);
  if (got < 0) throw_storage_error("read", path_);
  if (static_cast<size_t>(got) < bytes) {
    throw Error(ExitCode::storage, path_ + ": ends at byte " + std::to_string(offset + got) + ", expected " +
                                       std::to_string(offset + bytes) + " bytes: was it truncated?");
  }
}

std::string read_text_file(const std::string& path, uint64_t limit, ExitCode too_large) {
  const InputFile file(path);
  if (file.bytes() > limit) {
    throw Error(too_large,
                path + ": has " + std::to_string(file.bytes()) + " bytes, expected at most " + std::to_string(limit));
  }
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  std::vector<char> buffer(std::min<uint64_t>(kBuffer, file.bytes()));
  Sha256 hash;
  for (uint64_t offset = 0; offset < file.bytes(); offset += buffer.size()) {
    const size_t bytes = std::min<uint64_t>(buffer.size(), file.bytes() - offset);
    file.read(offset, buffer.data(), bytes);
    hash.update(buffer.data(), bytes);
  }
  return hash.hex();
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) throw_storage_error("open", path);
  // Some network file systems cannot sync a folder and say EINVAL or EBADF. That is no failure of the disk.
  const bool synced = ::fsync(folder) == 0 || errno == EINVAL || errno == EBADF;
  const int reason = errno;
  ::close(folder);
  errno = reason;
  if (!synced) throw_storage_error("fsync", path);
}

void sync_folder_of(const std::string& path) { sync_folder(folder_of(path)); }

void create_folders(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  const std::string folder = folder_of(path);
  create_folders(folder);
  std::filesystem::create_directory(path);
  if (::access(folder.c_str(), R_OK) == 0) sync_folder(folder);
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw_storage_error("rename to " + to, from);
}

void replace_file(const std::string& path, std::string_view text) {
  struct stat found;
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    throw Error(ExitCode::storage, path + ": expected a regular file or a new name, and it is a device or a pipe");
  }
  // The name belongs to this process: if two processes write the same file at once, the last one replaces it whole.
  const std::string unfinished = path + "." + std::to_string(::getpid()) + ".tmp";
  ::unlink(unfinished.c_str());  // left by a crash of an earlier process of this number
  OutputFile file(unfinished);
  file.write(text);
  file.close();
  rename_path(unfinished, path);
  sync_folder_of(path);
}

}  // namespace strata
