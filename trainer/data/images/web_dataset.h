// SPDX-License-Identifier: MIT
// Images in tar archives in the WebDataset layout: NAME.jpg and NAME.cls next to each other. Archives are read in
// sequence and never unpacked.
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
  // Reads the headers and labels of all archives that match `pattern`. Throws Error (data) for broken archives, for
  // images without a label or labels without an image, and for labels that are not a number below `classes`.
  //
  // An epoch visits the archives in its own order. Within an archive, it shuffles each run of `shuffle` consecutive
  // samples.
  WebDataset(const std::string& pattern, int64_t classes, int64_t shuffle);

  int64_t count() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t image) const override { return samples_[static_cast<size_t>(image)].label; }
  std::string name(int64_t image) const override;
  int64_t image_at(uint64_t key, int64_t place) const override;
  // Reads the parts that hold these images and drops the other parts. Throws Error (data) if an archive has changed.
  void fetch(const std::vector<int64_t>& images) const override;
  std::string read(int64_t image) const override;
  std::string fingerprint() const override;

 private:
  struct Sample {
    std::string name;  // name of the image in its archive
    int64_t label = 0, bytes = 0;
  };
  struct Order {  // the order of the archives in one epoch
    uint64_t key = 0;
    std::vector<int64_t> archives, first_places;
  };
  struct Cursor {
    int64_t archive = 0, next = 0;  // index of the next sample among all samples
    TarReader reader;
  };
  using ArchivePart = std::pair<int64_t, int64_t>;  // archive, index of a run of `shuffle` samples in it

  void list(const std::string& path, int64_t classes);
  int64_t archive_of(int64_t image) const;
  ArchivePart part_of(int64_t image) const;
  std::vector<std::string> read_part(const ArchivePart& part) const;
  const Order& order_of(uint64_t key) const;

  int64_t shuffle_;
  std::vector<std::string> archives_;
  std::vector<int64_t> first_samples_;  // first sample of each archive, and the total at the end
  std::vector<Sample> samples_;

  // Only the thread that calls fetch() and image_at() uses these members.
  mutable std::optional<Order> order_;
  mutable std::optional<Cursor> cursor_;
  mutable std::map<ArchivePart, std::vector<std::string>> parts_;
};

}  // namespace strata::trainer
