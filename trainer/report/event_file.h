// SPDX-License-Identifier: MIT
// A TensorBoard event file of scalars, written byte by byte: length, CRC, a protobuf message `Event`, CRC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/append_file.h"

namespace strata::trainer {

using Scalars = std::vector<std::pair<std::string, double>>;  // name, value

uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // Goes on with the newest event file of the folder, from which the events after `resumed_step` are cut off, or begins
  // one; -1: a new run, event files that a crash has left are removed.
  EventFile(const std::string& folder, int64_t resumed_step, AppendFile::Warn warn);

  void append(int64_t step, const Scalars& scalars);

 private:
  std::unique_ptr<AppendFile> file_;
};

}  // namespace strata::trainer
