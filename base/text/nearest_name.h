// SPDX-License-Identifier: MIT
// Finds the known name that a user most likely meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strata {

// The number of letters to insert, delete, replace or swap with their neighbor to get from `a` to `b`. Upper and lower
// case are equal. A number above `most` is given as most + 1, which takes less time. Algorithm: optimal string
// alignment, the restricted Damerau-Levenshtein distance, in a band around the diagonal (Ukkonen 1985).
int edit_distance(std::string_view a, std::string_view b, int most);

// The largest edit distance at which `word` still counts as a misspelling: about a third of its letters.
int allowed_edits(std::string_view word);

// Returns the nearest of `names`, the first one if several are equally near, and an empty text if none is near enough.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// True if `word` is a name that other programs give to `name`: its words, abbreviated or without fillers such as num_
// and _size, or its initials. Examples: vocab_size for vocabulary, num_layers for layers, lr for learning_rate.
bool is_called(std::string_view word, std::string_view name);

// Returns "; did you mean 'name'?", or an empty text for an empty name.
std::string did_you_mean(std::string_view name);

}  // namespace strata
