// SPDX-License-Identifier: MIT
#include "trainer/data/text/raw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files/file_io.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {

static_assert(std::endian::native == std::endian::little, "these files are little-endian and read without swapping");

RawFile::RawFile(std::string path, const std::string& kind) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would block
  if (descriptor_ < 0) {
    const int reason = errno;
    refuse_file(path_,
                std::string("cannot be opened: ") + std::strerror(reason) +
                    (reason == EMFILE ? "; every token file stays open: raise the hard limit (ulimit -Hn), or write "
                                        "fewer and larger files"
                                      : ""));
  }
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) refuse_file(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) refuse_file(path_, "is not a regular file; expected " + kind);
    if (status.st_size == 0) refuse_file(path_, "is empty; expected " + kind + " with a header of 1024 bytes");
    bytes_ = status.st_size;
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

RawFile::~RawFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

int64_t RawFile::read(void* buffer, int64_t bytes, int64_t offset) const {
  const int64_t got = read_at(descriptor_, offset, buffer, bytes);
  if (got < 0) refuse_file(path_, std::string("cannot be read: ") + std::strerror(errno));
  return got;
}

RawFile::Header RawFile::header(const std::string& kind) const {
  Header header{};
  const int64_t got = read(header.data(), kHeaderBytes, 0);
  if (got == kHeaderBytes) return header;
  refuse_file(path_,
              "has " + std::to_string(got) + " bytes, less than the header of 1024 that " + kind + " begins with");
}

void RawFile::require_size(int64_t numbers, const std::string& noun, int bytes_per_number) const {
  const int64_t expected = kHeaderBytes + numbers * bytes_per_number;
  if (bytes_ == expected) return;
  refuse_file(path_, "has " + std::to_string(bytes_) + " bytes; its header (" + std::to_string(numbers) + " " + noun +
                         " of " + std::to_string(bytes_per_number) + " bytes) asks for " + std::to_string(expected) +
                         (bytes_ < expected ? ": it was truncated" : ": it has something foreign at its end"));
}

}  // namespace strata::trainer
