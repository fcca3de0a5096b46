// SPDX-License-Identifier: MIT
// Rules between fields: each names the fields that it reads, and is skipped when one of them was not read well.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace strata::configs {

class Checks {
 public:
  // `read_well(path)`: the field and all above it had no error. `report(path, message)`: an error at this field.
  using ReadWell = std::function<bool(const std::string& path)>;
  using Report = std::function<void(const std::string& path, const std::string& message)>;
  Checks(ReadWell read_well, Report report) : read_well_(std::move(read_well)), report_(std::move(report)) {}

  // The rules of a section: its fields are named without their prefix.
  Checks within(const std::string& section) const {
    Checks inner = *this;
    inner.prefix_ = prefix_ + section + ".";
    return inner;
  }

  // All fields were read well: a rule about them can be computed. A leading '/' names a field from the root.
  bool can_check(std::initializer_list<std::string_view> fields) const {
    for (std::string_view field : fields) {
      if (!read_well_(path(field))) return false;
    }
    return true;
  }

  // The rule is broken; said at `field`.
  void fail(std::string_view field, const std::string& message) { report_(path(field), message); }

 private:
  std::string path(std::string_view field) const {
    return field.starts_with('/') ? std::string(field.substr(1)) : prefix_ + std::string(field);
  }

  ReadWell read_well_;
  Report report_;
  std::string prefix_;
};

}  // namespace strata::configs
