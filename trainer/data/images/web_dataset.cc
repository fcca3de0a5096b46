// SPDX-License-Identifier: MIT
#include "trainer/data/images/web_dataset.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>

#include "base/permutation.h"
#include "base/text/hex_digits.h"
#include "trainer/data/matching_files.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

constexpr uint64_t kOrderOfArchives = 1;  // a random stream of an epoch
constexpr int64_t kLongestLabel = 32;     // bytes

// For example, folder/0001.seg.png is the part seg.png of the sample folder/0001.
struct PartName {
  std::string sample, kind;
};

PartName split(const std::string& name) {
  const size_t base = name.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = std::min(name.find('.', base), name.size());
  PartName part{name.substr(0, dot), name.substr(std::min(dot + 1, name.size()))};
  std::transform(part.kind.begin(), part.kind.end(), part.kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return part;
}

bool is_image(std::string_view kind) { return kind == "jpg" || kind == "jpeg" || kind == "png"; }

int64_t label_of(std::string text, const std::string& path, const std::string& name, int64_t classes) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  int64_t label = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (problem != std::errc() || end != text.data() + text.size()) refuse_file(path, "'" + name + "' is not a number");
  if (label >= 0 && label < classes) return label;
  refuse_file(path, "'" + name + "' is " + std::to_string(label) + ", outside of the " + std::to_string(classes) +
                        " classes of the model (model.classes)");
}

}  // namespace

WebDataset::WebDataset(const std::string& pattern, int64_t classes, int64_t shuffle)
    : shuffle_(shuffle),
      archives_(matching_files(pattern, "expected tar archives of NAME.jpg and NAME.cls, as WebDataset has them")) {
  for (const std::string& path : archives_) {
    first_samples_.push_back(count());
    list(path, classes);
  }
  first_samples_.push_back(count());
}

void WebDataset::list(const std::string& path, int64_t classes) {
  struct {
    std::string name;
    std::optional<Sample> image;
    std::optional<int64_t> label;
  } open;
  const auto close = [&] {
    if (open.name.empty()) return;
    if (!open.image)
      refuse_file(path, "'" + open.name + "' has no image; expected .jpg, .jpeg or .png beside its .cls");
    if (!open.label)
      refuse_file(path, "'" + open.name + "' has no label; expected " + open.name + ".cls beside its image");
    open.image->label = *open.label;
    samples_.push_back(*open.image);
    open = {};
  };
  TarReader reader(path);
  const int64_t before = count();
  while (const std::optional<TarMember> member = reader.next()) {
    const auto [sample, kind] = split(member->name);
    if (!is_image(kind) && kind != "cls") continue;  // skips captions and other files beside the images
    if (sample.empty() || sample.ends_with('/')) refuse_file(path, "holds '" + member->name + "', which has no name");
    if (sample != open.name) close();
    open.name = sample;
    if (is_image(kind)) {
      if (open.image) refuse_file(path, "'" + sample + "' has two images");
      open.image = Sample{member->name, 0, member->bytes};
    } else {
      if (open.label) refuse_file(path, "'" + sample + "' has two labels");
      if (member->bytes > kLongestLabel) refuse_file(path, "'" + member->name + "' is not a number");
      open.label = label_of(reader.read(), path, member->name, classes);
    }
  }
  close();
  if (count() == before) refuse_file(path, "holds no images with labels; expected NAME.jpg and NAME.cls");
}

int64_t WebDataset::archive_of(int64_t image) const {
  return std::upper_bound(first_samples_.begin(), first_samples_.end(), image) - first_samples_.begin() - 1;
}

WebDataset::ArchivePart WebDataset::part_of(int64_t image) const {
  const int64_t archive = archive_of(image);
  return {archive, (image - first_samples_[static_cast<size_t>(archive)]) / shuffle_};
}

std::string WebDataset::name(int64_t image) const {
  return archives_[static_cast<size_t>(archive_of(image))] + ":" + samples_[static_cast<size_t>(image)].name;
}

const WebDataset::Order& WebDataset::order_of(uint64_t key) const {
  if (order_ && order_->key == key) return *order_;
  Order& order = order_.emplace(Order{key, {}, {}});
  const auto archives = static_cast<int64_t>(archives_.size());
  int64_t place = 0;
  for (int64_t i = 0; i < archives; ++i) {
    const auto archive = static_cast<size_t>(permuted(mix(key, kOrderOfArchives), i, archives));
    order.archives.push_back(static_cast<int64_t>(archive));
    order.first_places.push_back(place);
    place += first_samples_[archive + 1] - first_samples_[archive];
  }
  return order;
}

int64_t WebDataset::image_at(uint64_t key, int64_t place) const {
  const Order& order = order_of(key);
  const auto turn = static_cast<size_t>(std::upper_bound(order.first_places.begin(), order.first_places.end(), place) -
                                        order.first_places.begin() - 1);
  const auto archive = static_cast<size_t>(order.archives[turn]);
  const int64_t samples = first_samples_[archive + 1] - first_samples_[archive];
  const int64_t in_archive = place - order.first_places[turn], part = in_archive / shuffle_;
  const int64_t size = std::min(shuffle_, samples - part * shuffle_);
  const uint64_t key_of_part = mix(mix(key, archive), static_cast<uint64_t>(part));
  return first_samples_[archive] + part * shuffle_ + permuted(key_of_part, in_archive % shuffle_, size);
}

std::vector<std::string> WebDataset::read_part(const ArchivePart& part) const {
  const auto archive = static_cast<size_t>(part.first);
  const int64_t first = first_samples_[archive] + part.second * shuffle_;
  const int64_t end = std::min(first + shuffle_, first_samples_[archive + 1]);
  if (!cursor_ || cursor_->archive != part.first || cursor_->next > first) {
    cursor_.emplace(Cursor{part.first, first_samples_[archive], TarReader(archives_[archive])});
  }
  std::vector<std::string> files;
  while (cursor_->next < end) {
    const std::optional<TarMember> member = cursor_->reader.next();
    if (member && !is_image(split(member->name).kind)) continue;
    const Sample& sample = samples_[static_cast<size_t>(cursor_->next)];
    if (!member || member->name != sample.name || member->bytes != sample.bytes) {
      refuse_file(archives_[archive],
                  "'" + sample.name + "' is not where it was at the start of the run: the file has changed");
    }
    if (cursor_->next >= first) files.push_back(cursor_->reader.read());
    ++cursor_->next;
  }
  return files;
}

void WebDataset::fetch(const std::vector<int64_t>& images) const {
  std::set<ArchivePart> wanted;
  for (const int64_t image : images) wanted.insert(part_of(image));
  std::erase_if(parts_, [&](const auto& entry) { return !wanted.contains(entry.first); });
  for (const ArchivePart& part : wanted) {
    if (!parts_.contains(part)) parts_.emplace(part, read_part(part));
  }
}

std::string WebDataset::read(int64_t image) const {
  const ArchivePart part = part_of(image);
  const int64_t first = first_samples_[static_cast<size_t>(part.first)] + part.second * shuffle_;
  return parts_.at(part).at(static_cast<size_t>(image - first));
}

std::string WebDataset::fingerprint() const {
  uint64_t hash = mix(archives_.size(), samples_.size());
  for (const int64_t first : first_samples_) hash = mix(hash, static_cast<uint64_t>(first));
  for (const Sample& sample : samples_) {
    for (const char c : sample.name) hash = mix(hash, static_cast<uint64_t>(static_cast<unsigned char>(c)));
    hash = mix(mix(hash, static_cast<uint64_t>(sample.label)), static_cast<uint64_t>(sample.bytes));
  }
  return hex_digits(hash);
}

}  // namespace strata::trainer
