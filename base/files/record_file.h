// SPDX-License-Identifier: MIT
// RecordFile: a file that grows record by record during a run. A record that cannot be written whole is removed again,
// and a full disk does not end the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace strata {

class RecordFile {
 public:
  // `warn` is called once, at the first failure. If a record was not written, later ones are still tried, because the
  // disk may have space again.
  using Warn = std::function<void(const std::string&)>;

  // Creates the file if it does not exist. Otherwise appends after its first `keep` bytes and cuts off the rest. If one
  // of the two fails, the file stays as it is, and append() does nothing.
  RecordFile(const std::string& path, uint64_t keep, Warn warn);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  void append(std::string_view record);

 private:
  void fail(const char* call, const char* lost);

  std::string path_;
  uint64_t end_;
  Warn warn_;
  int file_;
};

}  // namespace strata
