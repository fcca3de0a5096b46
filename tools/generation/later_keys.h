// SPDX-License-Identifier: MIT
// These functions find out if a token of a prompt sees a later one, which is not generated yet.
#pragma once

#include <cstdint>

#include "kernels/attention/pattern/pattern.h"
#include "modules/config/model_config.h"

namespace strata::generation {

// True if a position sees a later key that is not in a prompt of `prompt` tokens. Such a token would have to be
// computed anew for each token that is generated.
bool sees_later_keys(const kernels::Pattern& pattern, int64_t prompt, int64_t positions);

// Throws an Error with ExitCode::configuration that names the layers and their pattern.
void check_no_later_keys(const modules::TransformerConfig& config, int64_t prompt, int64_t positions);

}  // namespace strata::generation
