// SPDX-License-Identifier: MIT
// The bytes that are taken now and were taken at most, and when that was.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace strata::trainer {

class MemoryLedger {
 public:
  void take(int64_t bytes) {
    now_ += bytes;
    if (now_ <= most_) return;
    most_ = now_;
    moment_ = place_;
  }
  void give(int64_t bytes) { now_ -= bytes; }
  void need(int64_t bytes) { take(bytes), give(bytes); }  // while an op runs
  void at(std::string place) { place_ = std::move(place); }

  int64_t now() const { return now_; }
  int64_t most() const { return most_; }
  const std::string& moment() const { return moment_; }

 private:
  int64_t now_ = 0, most_ = 0;
  std::string place_, moment_;
};

}  // namespace strata::trainer
