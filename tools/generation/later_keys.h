// SPDX-License-Identifier: MIT
// Refuses models in which a token of a prompt sees a later one, which is not generated yet.
#pragma once

#include <cstdint>

#include "modules/config/model_config.h"

namespace strata::generation {

// Throws an Error with ExitCode::configuration that names the layers and their pattern if a position sees a later key
// that is not in a prompt of `prompt` tokens. Such a token would have to be computed anew for each token that is
// generated.
void check_no_later_keys(const modules::TransformerConfig& config, int64_t prompt, int64_t positions);

}  // namespace strata::generation
