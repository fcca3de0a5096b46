// SPDX-License-Identifier: MIT
// Files whose system calls are all checked: a failure is an Error(storage) with the call, the path and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/errors.h"

namespace strata {

// A new file that is hashed while it is written. Its bytes are on the disk after close() has returned. A file that is
// destroyed without close() is unfinished.
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

// A regular file that is read by position and never mapped, so that a file that shrinks during the read is an error and
// not a SIGBUS. The last component of the path may not be a symbolic link.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // size at the time of opening
  void read(uint64_t offset, void* into, size_t bytes) const;

 private:
  std::string path_;
  uint64_t bytes_;
  int file_;
};

// Reads `bytes` bytes of an open file from `offset` on, or fewer if the file ends before. Returns how many were read,
// and -1 if the system refuses; errno has the reason. The place of the descriptor does not move, so several threads may
// read one file.
int64_t read_at(int file, uint64_t offset, void* into, size_t bytes);

[[noreturn]] void throw_storage_error(std::string_view call, const std::string& path);  // from errno

// Ignores SIGXFSZ, which would end the process at a limit on file sizes. A write beyond the limit then returns EFBIG.
void ignore_file_size_signal();

// Returns the whole text of a file. A file of more than `limit` bytes is refused with the code `too_large`.
std::string read_text_file(const std::string& path, uint64_t limit, ExitCode too_large = ExitCode::storage);
std::string sha256_of_file(const std::string& path);

// Puts created, renamed and removed names on the disk, where the file system can sync a folder.
void sync_folder(const std::string& path);
void sync_folder_of(const std::string& path);  // the same for the folder that holds the path
// Creates what is missing of the path, and puts the new names on the disk. A folder that may be written and not read
// cannot be synced, so a name in it is left to the file system.
void create_folders(const std::string& path);
void rename_path(const std::string& from, const std::string& to);

// Replaces the file atomically: readers see the old text or the new text, also after a crash and if several processes
// write it. A device, a pipe or a link to one, such as /dev/null, is refused: root would replace it for all programs.
void replace_file(const std::string& path, std::string_view text);

}  // namespace strata
