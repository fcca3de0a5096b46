// SPDX-License-Identifier: MIT
// Images in tar archives as WebDataset has them: NAME.jpg and NAME.cls side by side. Read in sequence, never unpacked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/images/image_files.h"
#include "trainer/data/images/tar_reader.h"

namespace strata::trainer {

class WebDataset : public ImageFiles {
 public:
  // Reads the headers and the labels of all archives that `pattern` names. Throws Error (data) for every kind of broken
  // archive, for images without a label or the reverse, and for labels that are no number below `classes`.
  //
  // An epoch visits the archives in an order of its own, and so the samples in each `shuffle` that follow each other.
  WebDataset(const std::string& pattern, int64_t classes, int64_t shuffle);

  int64_t count() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t image) const override { return samples_[static_cast<size_t>(image)].label; }
  std::string name(int64_t image) const override;
  int64_t in_epoch(uint64_t key, int64_t place) const override;
  // Reads on to the parts that hold these images, and forgets the others. Throws Error (data) when an archive is not
  // what it was.
  void fetch(const std::vector<int64_t>& images) const override;
  std::string read(int64_t image) const override;
  std::string fingerprint() const override;

 private:
  struct Sample {
    std::string name;  // of the image in its archive
    int64_t label = 0, bytes = 0;
  };
  struct Order {  // of the archives in one epoch
    uint64_t key = 0;
    std::vector<int64_t> archives, first_places;
  };
  struct Cursor {
    int64_t archive = 0, next = 0;  // the sample that follows, of all samples
    TarReader reader;
  };
  using Part = std::pair<int64_t, int64_t>;  // archive, which `shuffle` samples of it

  void list(const std::string& path, int64_t classes);
  int64_t archive_of(int64_t image) const;
  Part part_of(int64_t image) const;
  std::vector<std::string> read_part(const Part& part) const;
  const Order& order_of(uint64_t key) const;

  int64_t shuffle_;
  std::vector<std::string> archives_;
  std::vector<int64_t> first_samples_;  // of each archive, and the total at the end
  std::vector<Sample> samples_;

  // Of the thread that calls fetch() and in_epoch().
  mutable std::optional<Order> order_;
  mutable std::optional<Cursor> cursor_;
  mutable std::map<Part, std::vector<std::string>> parts_;
};

}  // namespace strata::trainer
