// SPDX-License-Identifier: MIT
// Reads a YAML file and overrides into a checked TrainerConfig, and writes it back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/listing.h"
#include "configs/reader.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct LoadedConfig {
  TrainerConfig config;
  configs::Places places;

  // Returns the configuration as YAML, each value with its origin. Reading it again gives the same configuration.
  std::string resolved() const;
  std::vector<configs::Line> lines() const;
};

// An override for a reader of a run that does not train it, and so needs no permission for its fault.
inline constexpr char kNoFault[] = "fault={kind: none}";

// Throws configs::ConfigErrors with all errors. Overrides are `a.b.c=value`; later ones win. A file with the name
// resolved.yaml may have old names of keys, because a run has written it.
LoadedConfig load_trainer_config(const std::string& path, const std::vector<std::string>& overrides);

// Reads a text instead of a file; messages use `name` as the file name.
LoadedConfig parse_trainer_config(const std::string& name, const std::string& text,
                                  const std::vector<std::string>& overrides);

// Returns "key: was X, now Y" for each value that differs from a resolved configuration and must stay when a run is
// resumed. kFreeSections in load_config.cc lists what need not stay. `steps` need not, if the rates of the steps done
// do not depend on it.
std::vector<std::string> differences_that_forbid_resuming(const std::string& resolved_before, const TrainerConfig& now,
                                                          int64_t steps_done);
// Returns the same as one text, read from a file. The text is empty if the file does not exist or nothing differs.
std::string difference_from_folder(const TrainerConfig& now, const std::string& resolved_path, int64_t steps_done);

// Return the help of all keys: for a terminal, as Markdown, as a JSON Schema.
std::string help_text();
std::string reference_page();
std::string json_schema();

}  // namespace strata::trainer
