// SPDX-License-Identifier: MIT
#include "trainer/data/text/document_ends.h"

#include <algorithm>
#include <deque>

#include "base/permutation.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

constexpr int32_t kMagic = 20261125, kVersion = 1;
constexpr int64_t kStride = 1024;      // documents for one end in memory
constexpr int64_t kAtATime = 1 << 16;  // ends that are read at a time to check them
const char kKind[] = "a file of document ends";

}  // namespace

DocumentEnds::DocumentEnds(const TokenFile& tokens, int64_t window) : file_(tokens.path() + ".documents", kKind) {
  const RawFile::Header header = file_.header(kKind);
  if (header[0] != kMagic || header[1] != kVersion) {
    refuse_file(path(), "begins with " + std::to_string(header[0]) + ", " + std::to_string(header[1]) +
                            "; expected 20261125, 1, as a file of document ends does; write it again with tools/strata "
                            "prepare text");
  }
  documents_ = header[2];
  if (header[3] != tokens.tokens()) {
    refuse_file(path(), "speaks of " + std::to_string(header[3]) + " tokens, but " + tokens.path() + " has " +
                            std::to_string(tokens.tokens()) + ": they do not belong together");
  }
  if (documents_ <= 0)
    refuse_file(path(), "has " + std::to_string(documents_) + " documents by its header; expected at least one");
  file_.require_size(documents_, "documents", sizeof(int32_t));
  check_all(tokens.tokens(), window);
}

void DocumentEnds::check_all(int64_t tokens, int64_t window) {
  std::deque<int64_t> recent;  // ends among the last `window` places
  int64_t last = 0;
  for (int64_t first = 0; first < documents_; first += kAtATime) {
    const std::vector<int32_t> ends = read(first, std::min(kAtATime, documents_ - first));
    for (size_t i = 0; i < ends.size(); ++i) {
      const int64_t document = first + static_cast<int64_t>(i), end = ends[i];
      if (end <= last || end > tokens) {
        refuse_file(path(), "document " + std::to_string(document) + " of " + std::to_string(documents_) +
                                " ends at token " + std::to_string(end) + "; expected more than " +
                                std::to_string(last) + ", the end of the document before, and at most " +
                                std::to_string(tokens) + "; write the file again with tools/strata prepare text");
      }
      if (document % kStride == 0) every_1024th_.push_back(ends[i]);
      while (!recent.empty() && recent.front() <= end - window) recent.pop_front();
      recent.push_back(end);
      most_in_window_ = std::max(most_in_window_, static_cast<int64_t>(recent.size()));
      hash_ = mix(hash_, static_cast<uint64_t>(end));
      last = end;
    }
  }
  if (last == tokens) return;
  refuse_file(path(), "the last of " + std::to_string(documents_) + " documents ends at token " + std::to_string(last) +
                          "; expected " + std::to_string(tokens) +
                          ", the number of tokens; write the file again with tools/strata prepare text");
}

std::vector<int64_t> DocumentEnds::between(int64_t first, int64_t last) const {
  std::vector<int64_t> found;
  const auto after = std::lower_bound(every_1024th_.begin(), every_1024th_.end(), first);
  const int64_t index = std::max<int64_t>(after - every_1024th_.begin() - 1, 0);
  int64_t before = 0;
  for (int64_t document = index * kStride; document < documents_; document += kStride) {
    for (const int64_t end : read(document, std::min(kStride, documents_ - document))) {
      if (end <= before) {
        refuse_file(path(), "was changed while in use: its ends no longer ascend; restore it and resume the run");
      }
      before = end;
      if (end > last) return found;
      if (end >= first) found.push_back(end);
    }
  }
  return found;
}

std::vector<int32_t> DocumentEnds::read(int64_t first, int64_t count) const {
  std::vector<int32_t> ends(count);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
  const int64_t got =
      file_.read(ends.data(), bytes, RawFile::kHeaderBytes + first * static_cast<int64_t>(sizeof(int32_t)));
  if (got == bytes) return ends;
  refuse_file(path(), "was cut while in use: it had " + std::to_string(documents_) +
                          " documents when it was opened, now it ends before document " +
                          std::to_string(first + count) + "; restore it and resume the run");
}

}  // namespace strata::trainer
