// SPDX-License-Identifier: MIT
// All that is wrong with a configuration, collected and then reported at once.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/errors.h"
#include "configs/source.h"

namespace strata::configs {

// Its text is the whole report.
class ConfigErrors : public Error {
 public:
  explicit ConfigErrors(const std::string& report) : Error(ExitCode::configuration, report) {}
};

class ErrorList {
 public:
  // `path` may be empty: an error of the file, not of a key.
  void add(const Place& place, const std::string& path, const std::string& message);
  // No error of its own, but the field has no value that could be used; "" for all fields.
  void spoil(const std::string& path) { spoiled_.insert(path); }

  // Neither the field nor a section above it has an error.
  bool read_well(const std::string& path) const;
  bool empty() const { return errors_.empty(); }
  // So many that looking for nearest names is no help any more.
  bool crowded() const { return errors_.size() >= 100; }

  // Errors in the order of the file, then those of overrides, then how many there are.
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
