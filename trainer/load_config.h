// SPDX-License-Identifier: MIT
// From a YAML file and overrides to a TrainerConfig that is known to be good, and back.
#pragma once

#include <string>
#include <vector>

#include "configs/listing.h"
#include "configs/reader.h"
#include "trainer/trainer_config.h"

namespace strata::trainer {

struct LoadedConfig {
  TrainerConfig config;
  configs::Places places;

  // As YAML, each value with its origin; reruns to the same configuration.
  std::string resolved() const;
  std::vector<configs::Line> lines() const;
};

// Throws configs::ConfigErrors with all that is wrong. Overrides are `a.b.c=value`; later ones win.
LoadedConfig load_trainer_config(const std::string& path, const std::vector<std::string>& overrides);

// The same from a text; `name` stands for the file in messages.
LoadedConfig parse_trainer_config(const std::string& name, const std::string& text,
                                  const std::vector<std::string>& overrides);

// SHA-256 over the values that must stay when a run is resumed: all but run, checkpoint, evaluation, log, profile,
// fault, cuda_graph.
std::string config_hash(const TrainerConfig& config);

// "key: was X, now Y" for each of these values that differs from a resolved configuration.
std::vector<std::string> differences_that_forbid_resuming(const std::string& resolved_before, const TrainerConfig& now);
// The same as one text, against a file; empty when the file does not exist or nothing differs.
std::string difference_from_folder(const TrainerConfig& now, const std::string& resolved_path);

// "key: was X, now Y" for every value that differs between two resolved configurations, such as those of two ranks;
// faults left out.
std::vector<std::string> all_differences(const std::string& resolved_before, const std::string& resolved_now);

// All keys explained: for a terminal, as Markdown, as a JSON Schema.
std::string help_text();
std::string reference_page();
std::string json_schema();

}  // namespace strata::trainer
