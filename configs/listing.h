// SPDX-License-Identifier: MIT
// Every value of a configuration on a line of its own, with where it came from: printed, compared and hashed.
#pragma once

#include <string>
#include <vector>

#include "configs/fields.h"
#include "configs/reader.h"

namespace strata::configs {

struct Line {
  std::string path;    // kernels.layers.0.only
  std::string value;   // as YAML
  std::string plain;   // the same without quotes
  std::string origin;  // file:line, override, default
};

std::vector<Line> list_values(const Section& section, const Places& places);

// Nested YAML with the origins as comments; read again, it gives the same values.
std::string resolved_yaml(const Section& section, const Places& places);

// "key: was X, now Y" for each value that differs, except in keys equal to or below those in `ignored`.
std::vector<std::string> differences(const std::vector<Line>& before, const std::vector<Line>& now,
                                     const std::vector<std::string>& ignored);

}  // namespace strata::configs
