// SPDX-License-Identifier: MIT
// Rules that involve several fields. A rule names the fields that it reads and is skipped if one of them could not be
// read.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace strata::configs {

class Checks {
 public:
  // read_well(path) is true if the field and all sections above it are without errors. report(path, message) adds an
  // error at this field.
  using ReadWell = std::function<bool(const std::string& path)>;
  using Report = std::function<void(const std::string& path, const std::string& message)>;
  Checks(ReadWell read_well, Report report) : read_well_(std::move(read_well)), report_(std::move(report)) {}

  // Returns the checks of a section, in which fields are named without the section's prefix.
  Checks within(const std::string& section) const {
    Checks inner = *this;
    inner.prefix_ = prefix_ + section + ".";
    return inner;
  }

  // True if all fields were read without errors, so that a rule about them can be computed. A leading '/' names a field
  // from the root.
  bool can_check(std::initializer_list<std::string_view> fields) const {
    for (std::string_view field : fields) {
      if (!read_well_(path(field))) return false;
    }
    return true;
  }

  // Reports at `field` that the rule is broken.
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
