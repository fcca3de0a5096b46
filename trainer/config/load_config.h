// SPDX-License-Identifier: MIT
// From a YAML file and overrides to a TrainerConfig that is known to be good, and back.
#pragma once

#include <string>
#include <vector>

#include "configs/listing.h"
#include "configs/reader.h"
#include "trainer/config/trainer_config.h"

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

// "key: was X, now Y" for each value that differs from a resolved configuration and must stay when a run is resumed:
// all but run (its seed stays), micro_batch, sharding, checkpoint, evaluation, log, profile, fault, cuda_graph.
std::vector<std::string> differences_that_forbid_resuming(const std::string& resolved_before, const TrainerConfig& now);
// The same as one text, against a file; empty when the file does not exist or nothing differs.
std::string difference_from_folder(const TrainerConfig& now, const std::string& resolved_path);

// All keys explained: for a terminal, as Markdown, as a JSON Schema.
std::string help_text();
std::string reference_page();
std::string json_schema();

}  // namespace strata::trainer
