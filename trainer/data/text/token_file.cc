// SPDX-License-Identifier: MIT
#include "trainer/data/text/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "trainer/data/fail.h"

namespace strata::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read without swapping");

constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

struct Format {
  int32_t magic, version;
  int bytes_per_id;
};
constexpr std::array<Format, 2> kFormats = {{{20240520, 1, 2}, {20240801, 7, 4}}};

// Reads `bytes` bytes, or fewer if the file ends before, and returns how many were read.
int64_t read_fully(const std::string& path, int descriptor, void* buffer, int64_t bytes, int64_t offset) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(descriptor, static_cast<char*>(buffer) + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) break;
    done += got;
  }
  return done;
}

template <class Id>
void read_ids(const TokenFile& file, int descriptor, int64_t first, int64_t count, int64_t* ids) {
  std::vector<Id> raw(count);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(Id));
  const int64_t got =
      read_fully(file.path(), descriptor, raw.data(), bytes, kHeaderBytes + first * static_cast<int64_t>(sizeof(Id)));
  if (got != bytes) {
    fail(file.path(), "was cut while in use: it had " + std::to_string(file.tokens()) +
                          " tokens when it was opened, now " + "it ends before token " + std::to_string(first + count) +
                          "; restore it and resume the run");
  }
  for (int64_t i = 0; i < count; ++i) ids[i] = raw[i];
}

}  // namespace

TokenFile::TokenFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would block
  if (descriptor_ < 0) {
    const int reason = errno;
    fail(path_, std::string("cannot be opened: ") + std::strerror(reason) +
                    (reason == EMFILE ? "; every token file stays open: raise the hard limit (ulimit -Hn), or write "
                                        "fewer and larger files"
                                      : ""));
  }
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) fail(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail(path_, "is not a regular file; expected a token file (.bin)");
    if (status.st_size == 0) fail(path_, "is empty; expected a token file with a header of 1024 bytes");
    std::array<int32_t, 256> header{};
    const int64_t got = read_fully(path_, descriptor_, header.data(), kHeaderBytes, 0);
    if (got < kHeaderBytes) {
      fail(path_, "has " + std::to_string(got) + " bytes, less than the header of 1024 that a token file begins with");
    }
    for (const Format& format : kFormats) {
      if (header[0] != format.magic) continue;
      if (header[1] != format.version) {
        fail(path_, "is version " + std::to_string(header[1]) + " of the token format " + std::to_string(format.magic) +
                        "; expected version " + std::to_string(format.version));
      }
      bytes_per_id_ = format.bytes_per_id;
    }
    if (bytes_per_id_ == 0) {
      fail(path_, "does not begin with the magic number of a token file (expected 20240520 or 20240801, found " +
                      std::to_string(header[0]) + "); write one with: tools/strata prepare text");
    }
    tokens_ = header[2];
    if (tokens_ <= 0) fail(path_, "has " + std::to_string(tokens_) + " tokens by its header; expected at least one");
    const int64_t expected = kHeaderBytes + tokens_ * bytes_per_id_;
    if (status.st_size != expected) {
      fail(path_, "has " + std::to_string(status.st_size) + " bytes; its header (" + std::to_string(tokens_) +
                      " tokens of " + std::to_string(bytes_per_id_) + " bytes) asks for " + std::to_string(expected) +
                      (status.st_size < expected ? ": it was truncated" : ": it has something foreign at its end"));
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      tokens_(other.tokens_),
      bytes_per_id_(other.bytes_per_id_) {}

TokenFile::~TokenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void TokenFile::read(int64_t first, int64_t count, int64_t* ids) const {
  if (first < 0 || count < 0 || first + count > tokens_) {
    throw Error(ExitCode::internal, path_ + ": tokens " + std::to_string(first) + " to " +
                                        std::to_string(first + count) + " were asked of a file of " +
                                        std::to_string(tokens_));
  }
  if (bytes_per_id_ == 2) {
    read_ids<uint16_t>(*this, descriptor_, first, count, ids);
  } else {
    read_ids<uint32_t>(*this, descriptor_, first, count, ids);
  }
}

}  // namespace strata::trainer
