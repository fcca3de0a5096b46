// SPDX-License-Identifier: MIT
#include "tools/generation/continue_prompts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/errors.h"
#include "tools/generation/later_keys.h"

namespace strata::generation {
namespace {

int64_t length(const std::vector<int64_t>& prompt) { return static_cast<int64_t>(prompt.size()); }

int64_t half_of(const modules::TransformerConfig& config) { return std::max<int64_t>(config.sequence / 2, 1); }

// Of the longest row.
int64_t positions_of(const modules::TransformerConfig& config, const Prompts& prompts, int64_t tokens) {
  int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, length(prompt));
  return std::min(config.sequence, longest + tokens);
}

}  // namespace

void check_prompts(const modules::TransformerConfig& config, const Prompts& prompts, int64_t tokens) {
  int64_t shortest = half_of(config);
  for (const std::vector<int64_t>& prompt : prompts) {
    shortest = std::min(shortest, length(prompt));
    if (prompt.empty()) {
      throw Error(ExitCode::configuration,
                  "the prompt is empty; give --prompt TEXT or --prompt-ids IDS with one token at least");
    }
    if (length(prompt) >= config.sequence) {
      throw Error(ExitCode::configuration, "the prompt has " + std::to_string(prompt.size()) +
                                               " tokens, and the context of the model " +
                                               std::to_string(config.sequence) + "; give a shorter one");
    }
    for (const int64_t id : prompt) {
      if (id >= 0 && id < config.vocabulary) continue;
      throw Error(ExitCode::data, "token " + std::to_string(id) + " of the prompt is outside of the vocabulary of " +
                                      std::to_string(config.vocabulary));
    }
  }
  check_no_later_keys(config, shortest, positions_of(config, prompts, tokens));
}

void continue_prompts(Decoder& decoder, const Prompts& prompts, const Continuation& how,
                      const std::function<void(size_t row, int64_t token)>& take) {
  if (how.tokens == 0 || prompts.empty()) return;
  Prompts contexts = prompts;
  std::vector<bool> has_ended(prompts.size(), false);
  Tensor logits = decoder.start(prompts, positions_of(decoder.config(), prompts, how.tokens));
  for (int64_t number = 0;; ++number) {
    const Tensor tokens = sample(logits, how.sampling, number);
    const Tensor on_host = tokens.cpu();
    for (size_t row = 0; row < prompts.size(); ++row) {
      if (has_ended[row]) continue;
      const int64_t token = on_host.const_data_ptr<int64_t>()[row];
      const bool is_stop = std::find(how.stops.begin(), how.stops.end(), token) != how.stops.end();
      if (!is_stop) take(row, token);
      contexts[row].push_back(token);
      has_ended[row] = is_stop || number + 1 == how.tokens;
    }
    if (std::find(has_ended.begin(), has_ended.end(), false) == has_ended.end()) return;
    logits = decoder.next(tokens);
    for (size_t row = 0; row < prompts.size(); ++row) {
      std::vector<int64_t>& context = contexts[row];
      if (has_ended[row] || length(context) <= decoder.positions()) continue;
      context.erase(context.begin(), context.end() - half_of(decoder.config()));
      const auto place = static_cast<int64_t>(row);
      logits.narrow(0, place, 1).copy_(decoder.restart(place, context));
    }
  }
}

}  // namespace strata::generation
