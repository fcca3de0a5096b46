// SPDX-License-Identifier: MIT
// Lists every value of a configuration with its origin, one per line, for printing, comparing and hashing.
#pragma once

#include <string>
#include <vector>

#include "configs/fields.h"
#include "configs/reader.h"

namespace strata::configs {

struct Line {
  std::string path;    // kernels.layers.0.only
  std::string value;   // as YAML
  std::string plain;   // value without quotes
  std::string origin;  // file:line, override, default
};

std::vector<Line> list_values(const Section& section, const Places& places);

// Returns nested YAML with the origins as comments. Reading it again gives the same values.
std::string resolved_yaml(const Section& section, const Places& places);

// Returns "key: was X, now Y" for each value that differs, except for keys in `ignored` and keys below them. A key in
// `compared` is compared although it is below an ignored one.
std::vector<std::string> differences(const std::vector<Line>& before, const std::vector<Line>& now,
                                     const std::vector<std::string>& ignored,
                                     const std::vector<std::string>& compared = {});

}  // namespace strata::configs
