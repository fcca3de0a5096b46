// SPDX-License-Identifier: MIT
#include "trainer/data/images/image_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/permutation.h"
#include "base/text/hex_digits.h"
#include "base/text/printable.h"
#include "trainer/data/images/decode_image.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 30;

// This is torchvision's list. Files that are neither JPEG nor PNG are bad images when they are decoded.
bool is_image_name(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kSuffixes = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                                ".pgm", ".tif",  ".tiff", ".webp"};
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [&](std::string_view end) { return lower.ends_with(end); });
}

// Visits all entries of a folder. Throws if the listing ends early, for example at a folder without read permission.
template <class Visit>
void for_each_entry(const std::string& path, Visit visit) {
  std::error_code problem;
  fs::directory_iterator entries(path, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem)) visit(*entries);
  if (problem) refuse_file(printable(path), "cannot be listed: " + problem.message());
}

// Refuses an entry that cannot be examined. The target of a link may be missing: such an entry is neither a folder nor
// an image.
void check(const std::error_code& problem, const std::string& path) {
  if (!problem || problem == std::errc::no_such_file_or_directory || problem == std::errc::not_a_directory) return;
  refuse_file(printable(path), "cannot be examined: " + problem.message() + "; remove it or mend what it names");
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Throws what the failure of a call in errno means. A file that is missing or may not be read is a bad image. Any other
// error is a failure of the storage. It must not count as a bad image, because then a broken disk would decide which
// images are trained on.
[[noreturn]] void throw_read_error(const std::string& path, const char* what) {
  const int reason = errno;
  if (reason == ENOMEM) throw std::bad_alloc();
  const std::string text = std::string(what) + ": " + std::strerror(reason);
  if (reason == ENOENT || reason == ENOTDIR || reason == EACCES) throw BadImage(text);
  const bool is_limit = reason == EMFILE || reason == ENFILE;
  throw Error(ExitCode::storage,
              printable(path) + ": " + text +
                  (is_limit ? "; raise the limit of open files (ulimit -n), then resume the run"
                            : "; the storage failed and not the image: mend the storage, then resume the run"));
}

}  // namespace

ImageFolder::ImageFolder(std::string root, int64_t classes) : root_(std::move(root)) {
  list_classes();
  if (static_cast<int64_t>(classes_.size()) != classes) {
    refuse_file(root_, "has " + std::to_string(classes_.size()) + " folders of classes; model.classes is " +
                           std::to_string(classes));
  }
  list_images();
}

ImageFolder::ImageFolder(std::string root, const ImageFolder& with_classes_of) : root_(std::move(root)) {
  list_classes();
  const auto& [other, own] =
      std::mismatch(with_classes_of.classes_.begin(), with_classes_of.classes_.end(), classes_.begin(), classes_.end());
  if (other != with_classes_of.classes_.end() || own != classes_.end()) {
    const bool is_missing = own == classes_.end() || (other != with_classes_of.classes_.end() && *other < *own);
    refuse_file(is_missing ? root_ : with_classes_of.root_,
                "has no folder of the class '" + printable(is_missing ? *other : *own) + "', which is in " +
                    (is_missing ? with_classes_of.root_ : root_) + "; expected the same classes in both");
  }
  list_images();
}

void ImageFolder::list_classes() {
  std::error_code problem;
  if (!fs::is_directory(root_, problem)) {
    refuse_file(printable(root_), "is no folder" + (problem ? " (" + problem.message() + ")" : "") +
                                      "; expected one with a folder of images for each class");
  }
  for_each_entry(root_, [&](const fs::directory_entry& entry) {
    if (entry.is_directory(problem)) classes_.push_back(entry.path().filename());
    check(problem, entry.path());
  });
  std::sort(classes_.begin(), classes_.end());
}

void ImageFolder::list_images() {
  for (size_t label = 0; label < classes_.size(); ++label) list_class(classes_[label], static_cast<int64_t>(label));
}

void ImageFolder::list_class(const std::string& name, int64_t label) {
  const size_t before = files_.size();
  const std::function<void(const std::string&)> list = [&](const std::string& folder) {
    for_each_entry(root_ + "/" + folder, [&](const fs::directory_entry& entry) {
      const std::string path = folder + "/" + entry.path().filename().string();
      std::error_code problem;
      const bool is_folder = entry.is_directory(problem);
      check(problem, entry.path());
      if (is_folder && !entry.is_symlink(problem)) {
        list(path);
      } else if (is_image_name(path) && entry.is_regular_file(problem)) {
        files_.push_back({path, label, static_cast<int64_t>(entry.file_size(problem))});
        check(problem, entry.path());
      }
    });
  };
  list(name);
  if (files_.size() == before) refuse_file(root_ + "/" + printable(name), "has no images; each class needs some");
  // Sorts by folder and then by name, as torchvision does with sorted(os.walk()).
  const auto key = [](const File& file) {
    const size_t slash = file.path.rfind('/');
    return std::pair(std::string_view(file.path).substr(0, slash), std::string_view(file.path).substr(slash));
  };
  std::sort(files_.begin() + static_cast<std::ptrdiff_t>(before), files_.end(),
            [&](const File& a, const File& b) { return key(a) < key(b); });
}

int64_t ImageFolder::image_at(uint64_t key, int64_t place) const { return permuted(key, place, count()); }

std::string ImageFolder::read(int64_t image) const {
  const std::string path = name(image);
  const Descriptor file(path);
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) throw_read_error(path, "cannot be opened");
  if (!S_ISREG(status.st_mode)) throw BadImage("is not a regular file");
  if (status.st_size > kMostBytes) throw BadImage("has " + std::to_string(status.st_size) + " bytes, more than 1 GiB");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t got = ::read(file.number(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_read_error(path, "cannot be read");
    if (got == 0) throw BadImage("has become shorter while it was read");
    have += static_cast<size_t>(got);
  }
  return bytes;
}

std::string ImageFolder::fingerprint() const {
  uint64_t hash = mix(static_cast<uint64_t>(files_.size()), classes_.size());
  for (const File& file : files_) {
    for (const char c : file.path) hash = mix(hash, static_cast<uint64_t>(static_cast<unsigned char>(c)));
    hash = mix(hash, static_cast<uint64_t>(file.bytes));
  }
  return hex_digits(hash);
}

}  // namespace strata::trainer
