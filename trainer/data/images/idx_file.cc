// SPDX-License-Identifier: MIT
#include "trainer/data/images/idx_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;

// Deflate expands at most 1032 to 1 (258 bytes from 2 bits), so a header that claims more is wrong.
constexpr int64_t kLargestExpansion = 1032;
// An expansion above 100 to 1 also counts as a compression bomb if the data exceed 64 MiB.
constexpr int64_t kLargestUsualExpansion = 100, kAlwaysAllowed = int64_t{64} << 20;

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

// Reads the decompressed bytes of a file in sequence.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would block
    if (descriptor < 0) refuse_file(path, std::string("cannot be opened: ") + std::strerror(errno));
    struct stat status {};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
      close(descriptor);
      refuse_file(path, status.st_size == 0 && S_ISREG(status.st_mode) ? "is empty; expected an IDX file"
                                                                       : "is not a regular file; expected an IDX file");
    }
    file_bytes_ = status.st_size;
    file_ = gzdopen(descriptor, "rb");
    if (file_ == nullptr) {
      close(descriptor);
      throw std::bad_alloc();
    }
    gzbuffer(file_, 1 << 17);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() { gzclose_r(file_); }

  int64_t file_bytes() const { return file_bytes_; }
  // The limit on the decompressed size. Call it after the first read().
  int64_t most_bytes() const {
    if (gzdirect(file_) != 0) return file_bytes_;
    return std::min(kLargestExpansion * file_bytes_, std::max(kLargestUsualExpansion * file_bytes_, kAlwaysAllowed));
  }

  // The end of a message about a larger size.
  std::string limit() const {
    if (gzdirect(file_) != 0 || most_bytes() == kLargestExpansion * file_bytes_) {
      return "a file of " + std::to_string(file_bytes_) + " bytes can hold";
    }
    return std::to_string(most_bytes()) + " (the larger of 64 MiB and 100 to 1): a compression bomb; if it is none, " +
           "unpack it with gunzip";
  }

  // Reads up to `count` bytes and returns their number. Throws if the stream is truncated or its checksum is wrong.
  int64_t read(uint8_t* bytes, int64_t count) {
    int64_t done = 0;
    while (done < count) {
      const int got = gzread(file_, bytes + done, static_cast<unsigned>(std::min<int64_t>(count - done, 1 << 24)));
      if (got < 0) fail_to_read();
      if (got == 0) break;
      done += got;
    }
    int code = Z_OK;
    gzerror(file_, &code);
    if (code == Z_BUF_ERROR) refuse_file(path_, "was truncated: its gzip stream ends in the middle");
    return done;
  }

 private:
  [[noreturn]] void fail_to_read() {
    int code = Z_OK;
    const char* words = gzerror(file_, &code);
    refuse_file(path_, code == Z_ERRNO ? std::string("cannot be read: ") + std::strerror(errno)
                                       : std::string("is damaged: its gzip stream cannot be read (") + words + ")");
  }

  std::string path_;
  gzFile file_ = nullptr;
  int64_t file_bytes_ = 0;
};

}  // namespace

IdxArray read_idx(const std::string& path, int least, int most) {
  Input input(path);
  std::array<uint8_t, 4> magic{};
  const int64_t found = input.read(magic.data(), magic.size());
  if (found < static_cast<int64_t>(magic.size()) || magic[0] != 0 || magic[1] != 0) {
    refuse_file(path,
                "does not begin with the magic number of an IDX file (two zero bytes, type, number of dimensions)");
  }
  if (magic[2] != kUnsignedByte) {
    refuse_file(path, "holds values of IDX type " + std::to_string(magic[2]) + "; expected 8, unsigned bytes");
  }
  const int dimensions = magic[3];
  if (dimensions < least || dimensions > most) {
    refuse_file(path,
                "holds an array of " + std::to_string(dimensions) + " dimensions; expected " +
                    (most == 1 ? "1: labels" : "3, images x height x width, or 4, images x channels x height x width"));
  }

  IdxArray array;
  const int64_t most_values = input.most_bytes();
  int64_t count = 1;
  for (int i = 0; i < dimensions; ++i) {
    std::array<uint8_t, 4> size{};
    if (input.read(size.data(), size.size()) < static_cast<int64_t>(size.size())) {
      refuse_file(path, "was truncated: it ends in its header");
    }
    array.sizes.push_back(int64_t{size[0]} << 24 | int64_t{size[1]} << 16 | int64_t{size[2]} << 8 | int64_t{size[3]});
    if (array.sizes.back() == 0) refuse_file(path, "holds nothing: its sizes are " + sizes_text(array.sizes));
    // The factors are below 2^51 and 2^32. They are compared by division, because the product may overflow.
    if (count > most_values / array.sizes.back()) {
      refuse_file(path, "says that its sizes are " + sizes_text(array.sizes) + (i + 1 < dimensions ? " x ..." : "") +
                            ", more than " + input.limit());
    }
    count *= array.sizes.back();
  }

  array.values.resize(static_cast<size_t>(count));
  const int64_t got = input.read(array.values.data(), count);
  if (got < count) {
    refuse_file(path, "was truncated: its sizes, " + sizes_text(array.sizes) + ", ask for " + std::to_string(count) +
                          " values, and it has " + std::to_string(got));
  }
  uint8_t beyond = 0;
  if (input.read(&beyond, 1) != 0) {
    refuse_file(path, "goes on after its " + sizes_text(array.sizes) + " values: it has something foreign at its end");
  }
  return array;
}

}  // namespace strata::trainer
