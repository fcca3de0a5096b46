// SPDX-License-Identifier: MIT
// A source of JPEG and PNG files with labels: folders or archives.
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
  virtual std::string name(int64_t image) const = 0;  // used in messages; its suffix gives the format
  // Returns the image at `place` in the epoch with this key. Each image occurs once per epoch.
  virtual int64_t image_at(uint64_t key, int64_t place) const = 0;
  // One thread calls fetch() before any thread calls read() of these images.
  virtual void fetch(const std::vector<int64_t>&) const {}
  // Returns the bytes of the file. Several threads call it at the same time. Throws BadImage if this file cannot be
  // used, and Error if the storage fails.
  virtual std::string read(int64_t image) const = 0;
  virtual std::string fingerprint() const = 0;  // a hash of names, labels and sizes
};

}  // namespace strata::trainer
