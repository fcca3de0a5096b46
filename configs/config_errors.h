// SPDX-License-Identifier: MIT
// Collects all errors of a configuration and reports them at once.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/errors.h"
#include "configs/source.h"

namespace strata::configs {

// An exception whose text is the whole report.
class ConfigErrors : public Error {
 public:
  explicit ConfigErrors(const std::string& report) : Error(ExitCode::configuration, report) {}
};

class ErrorList {
 public:
  // `path` is empty if the error belongs to the file and not to a key.
  void add(const Place& place, const std::string& path, const std::string& message);
  // Marks a field that has no usable value, without an error of its own. "" marks all fields.
  void spoil(const std::string& path) { spoiled_.insert(path); }

  // True if neither the field nor a section above or below it has an error.
  bool read_well(const std::string& path) const;
  bool empty() const { return errors_.empty(); }
  // True if a list of errors is too long for suggestions of similar names to help.
  bool has_too_many() const { return errors_.size() >= 100; }

  // The report lists errors in the order of the file, then errors of overrides, then the number of errors.
  std::string report() const;
  void throw_if_any() const;

 private:
  struct Entry {
    Place place;
    std::string path, message;
  };
  std::vector<Entry> errors_;
  std::set<std::string> spoiled_;
};

}  // namespace strata::configs
