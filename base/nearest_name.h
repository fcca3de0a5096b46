// SPDX-License-Identifier: MIT
// Which of the known names somebody meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strata {

// Letters to insert, delete, replace or swap with their neighbor; upper and lower case are the same.
int edit_distance(std::string_view a, std::string_view b);

// Edits that a word may be away from what was meant.
int allowed_edits(std::string_view word);

// The nearest of `names`, the first of equals; empty when none is near.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// Whether other programs call `name` so: its words, shortened or among num_, _size and the like, or its initials.
// vocab_size is vocabulary, num_layers is layers, lr is learning_rate.
bool is_called(std::string_view word, std::string_view name);

// "; did you mean 'name'?", or nothing for an empty name.
std::string did_you_mean(std::string_view name);

}  // namespace strata
