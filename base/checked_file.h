// SPDX-License-Identifier: MIT
// Files of which every system call is checked: a failure is Error(storage) with the call, the path and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace strata {

// A new file, hashed while it is written. It is on the disk when close() has returned; without close() it is
// unfinished.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  // the path must not exist
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void close();

  uint64_t bytes() const { return bytes_; }
  const std::string& sha256() const { return sha256_; }  // in hexadecimal, after close()

 private:
  void write_through(std::string_view bytes);

  std::string path_, buffer_, sha256_;
  uint64_t bytes_ = 0;
  Sha256 hash_;
  int file_;
};

// A regular file, read by position, never mapped: a file that shrinks meanwhile is an error and not a SIGBUS.
// The last component of the path may not be a symbolic link.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened
  void read(uint64_t offset, void* into, size_t bytes) const;

 private:
  std::string path_;
  uint64_t bytes_;
  int file_;
};

[[noreturn]] void throw_storage_error(std::string_view call, const std::string& path);  // from errno

// At a limit on file sizes a signal would end the process; with it ignored, write returns EFBIG.
void ignore_file_size_signal();

// All of a file that is at most `limit` bytes long.
std::string read_text_file(const std::string& path, uint64_t limit);
std::string sha256_of_file(const std::string& path);

void sync_folder(const std::string& path);  // names created, renamed or removed in it are on the disk
void rename_path(const std::string& from, const std::string& to);

// Readers see the old file or the new one, also after a crash.
void replace_file(const std::string& path, std::string_view text);

}  // namespace strata
