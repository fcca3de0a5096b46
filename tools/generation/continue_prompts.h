// SPDX-License-Identifier: MIT
// Continues prompts token by token, until a stop token or a number of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/generation/decoder.h"
#include "tools/generation/sample.h"

namespace strata::generation {

struct Continuation {
  int64_t tokens = 300;  // after each prompt, at most
  Sampling sampling = {};
  std::vector<int64_t> stops = {};  // tokens that end a row, and are no part of it
  int64_t batch = 32;               // prompts whose caches are in memory together
};

// Throws an Error with ExitCode::configuration if a prompt is empty or does not fit into the context, if a layer of the
// model sees tokens that are not there yet, and with ExitCode::data if a token is outside of the vocabulary.
void check_prompts(const modules::TransformerConfig& config, const Prompts& prompts, int64_t tokens);

// Calls take(row, token) for each new token. A row that fills the context of the model goes on from the last half of
// it, whose positions then begin at 0. Throws an Error with ExitCode::numerics if logits are NaN or infinite.
void continue_prompts(Decoder& decoder, const Prompts& prompts, const Continuation& how,
                      const std::function<void(size_t row, int64_t token)>& take);

}  // namespace strata::generation
