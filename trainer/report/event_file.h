// SPDX-License-Identifier: MIT
// A TensorBoard event file of scalars. Each record has a length, its CRC, a protobuf message `Event`, and its CRC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/record_file.h"

namespace strata::trainer {

using Scalars = std::vector<std::pair<std::string, double>>;  // name, value

uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // Appends to the newest event file of the folder, from which events after `resumed_step` are cut off, or creates one.
  // A `resumed_step` of -1 means a new run: event files that a crash has left are removed.
  EventFile(const std::string& folder, int64_t resumed_step, RecordFile::Warn warn);

  void append(int64_t step, const Scalars& scalars);

 private:
  std::unique_ptr<RecordFile> file_;
};

}  // namespace strata::trainer
