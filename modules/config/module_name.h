// SPDX-License-Identifier: MIT
// Names of modules: those of their parameters without the last word, such as blocks.3.attention.qkv.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "configs/range.h"

namespace strata::modules {

// Layers of transformers, language or vision, are blocks.0, blocks.1, ...; those of graph networks layers.0, layers.1,
// ...
std::string block_name(int64_t index);
std::string graph_layer_name(int64_t index);

// Of blocks.3.attention.qkv: 3. Absent: the module stands before or behind the layers.
std::optional<int64_t> layer_of(std::string_view module);

// Of blocks.3.attention.qkv: attention.qkv. Itself outside of layers, and empty for a layer.
std::string_view name_in_layer(std::string_view module);

// Of blocks.3 and attention.qkv: blocks.3.attention.qkv. Either may be empty.
std::string joined_name(std::string_view module, std::string_view part);

// The layers that `name` in a configuration says: 0-3 of blocks.0-3.mlp.
std::optional<configs::Range> layers_in(std::string_view name);

// Whether configurations mean this module by `name`: it, or one that it is a part of. The layer may be left out, or be
// a range: mlp, blocks.3.mlp and blocks.0-3.mlp all mean blocks.3.mlp.up.
bool means(std::string_view name, std::string_view module);

}  // namespace strata::modules
