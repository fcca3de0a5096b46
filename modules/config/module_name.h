// SPDX-License-Identifier: MIT
// Names of modules. The name of a module is the name of its parameters without the last word, such as
// blocks.3.attention.qkv.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "configs/range.h"

namespace strata::modules {

// Layers of transformers, language or vision, and of mixers are named blocks.0, blocks.1, ... Layers of graph networks
// are named layers.0, layers.1, ...
std::string block_name(int64_t index);
std::string graph_layer_name(int64_t index);

// Returns the index of the layer: 3 for blocks.3.attention.qkv. Returns nothing if the module is before or after the
// layers.
std::optional<int64_t> layer_of(std::string_view module);

// Returns the name within the layer: attention.qkv for blocks.3.attention.qkv. It is empty for a layer itself. A module
// outside of the layers keeps its whole name.
std::string_view name_in_layer(std::string_view module);

// Joins two names with a dot: blocks.3 and attention.qkv give blocks.3.attention.qkv. Either may be empty.
std::string joined_name(std::string_view module, std::string_view part);

// Returns the layers in a name that a user wrote: 0-3 for blocks.0-3.mlp.
std::optional<configs::Range> layers_in(std::string_view name);

// True if `name`, as a user wrote it, covers this module: it is the name of the module, or of one that contains it. The
// layer may be left out or be a range: mlp, blocks.3.mlp and blocks.0-3.mlp all cover blocks.3.mlp.up.
bool covers(std::string_view name, std::string_view module);

}  // namespace strata::modules
