// SPDX-License-Identifier: MIT
// The file FILE.documents beside a token file, in which `strata prepare text` says where documents end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/text/raw_file.h"
#include "trainer/data/text/token_file.h"

namespace strata::trainer {

// The header is {20261125, 1, documents, tokens}, padded with zeros to 1024 bytes. An int32 for each document follows:
// the number of tokens before the next document. These ends ascend, and the last is the number of tokens. The file is
// read once, when it is opened. Afterwards every 1024th end is in memory.
class DocumentEnds {
 public:
  // Throws Error (data) that names the file, and the document if its end is wrong. `window`: see most_in_window.
  DocumentEnds(const TokenFile& tokens, int64_t window);

  const std::string& path() const { return file_.path(); }
  int64_t documents() const { return documents_; }
  // Returns the largest number of ends among `window` consecutive places.
  int64_t most_in_window() const { return most_in_window_; }
  uint64_t hash() const { return hash_; }  // of all ends

  // Returns the ends from `first` to `last`, both included, in ascending order. Several threads may call this at the
  // same time. Throws Error (data) if the file has changed since it was opened.
  std::vector<int64_t> between(int64_t first, int64_t last) const;

 private:
  std::vector<int32_t> read(int64_t first, int64_t count) const;  // ends of documents
  void check_all(int64_t tokens, int64_t window);

  RawFile file_;
  int64_t documents_ = 0, most_in_window_ = 0;
  uint64_t hash_ = 0;
  std::vector<int32_t> every_1024th_;  // the end of document 0, 1024, ...
};

}  // namespace strata::trainer
