// SPDX-License-Identifier: MIT
// Images in folders: root/class/file, in torchvision's order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images/image_files.h"

namespace strata::trainer {

class ImageFolder : public ImageFiles {
 public:
  // Lists the files without opening them. Throws Error (data) if the folder does not exist, if a class has no images,
  // or if the number of classes is not `classes`.
  ImageFolder(std::string root, int64_t classes);
  // Throws Error (data) that names the first class that only one of the two folders has, before any other problem.
  ImageFolder(std::string root, const ImageFolder& with_classes_of);

  int64_t count() const override { return static_cast<int64_t>(files_.size()); }
  int64_t label(int64_t image) const override { return files_[static_cast<size_t>(image)].label; }
  std::string name(int64_t image) const override { return root_ + "/" + files_[static_cast<size_t>(image)].path; }
  int64_t image_at(uint64_t key, int64_t place) const override;
  std::string read(int64_t image) const override;
  std::string fingerprint() const override;

 private:
  struct File {
    std::string path;  // relative to the root
    int64_t label = 0;
    int64_t bytes = 0;
  };
  void list_classes();
  void list_images();
  void list_class(const std::string& name, int64_t label);

  std::string root_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace strata::trainer
