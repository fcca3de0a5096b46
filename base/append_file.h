// SPDX-License-Identifier: MIT
// A file that grows record by record while a run goes on: a record is there whole or not at all, and a full disk ends
// no run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace strata {

class AppendFile {
 public:
  // `warn` is called once, at the first failure; later records are still tried, for the disk may have room again.
  using Warn = std::function<void(const std::string&)>;

  // Makes the file when it does not exist and goes on after its first `keep` bytes; what stands behind them is cut off.
  AppendFile(const std::string& path, uint64_t keep, Warn warn);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);

 private:
  void fail(const char* call);

  std::string path_;
  uint64_t end_;
  Warn warn_;
  int file_;
};

}  // namespace strata
