// SPDX-License-Identifier: MIT
// Where JPEG and PNG files lie, with their labels: in folders or in archives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

class ImageFiles {
 public:
  virtual ~ImageFiles() = default;

  virtual int64_t count() const = 0;
  virtual int64_t label(int64_t image) const = 0;
  virtual std::string name(int64_t image) const = 0;  // for messages; its end says what the file is
  // The image that comes at `place` in the epoch of which `key` is the key. Each comes once.
  virtual int64_t in_epoch(uint64_t key, int64_t place) const = 0;
  // Called before read() of these images, by one thread.
  virtual void fetch(const std::vector<int64_t>&) const {}
  // The file as it is. By several threads. Throws BadImage when it cannot be read.
  virtual std::string read(int64_t image) const = 0;
  virtual std::string fingerprint() const = 0;  // of names, labels and sizes
};

}  // namespace strata::trainer
