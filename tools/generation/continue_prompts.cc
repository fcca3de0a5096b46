// SPDX-License-Identifier: MIT
#include "tools/generation/continue_prompts.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/errors.h"
#include "tools/generation/later_keys.h"

namespace strata::generation {
namespace {

int64_t length(const std::vector<int64_t>& prompt) { return static_cast<int64_t>(prompt.size()); }

int64_t half_of(const modules::TransformerConfig& config) { return std::max<int64_t>(config.sequence / 2, 1); }

// Returns how many positions the longest row computes. The last token of a row is not computed.
int64_t positions_of(const modules::TransformerConfig& config, const Prompts& prompts, int64_t tokens) {
  int64_t longest = 1;
  for (const auto& prompt : prompts) longest = std::max(longest, length(prompt));
  return std::min(config.sequence, longest + std::clamp<int64_t>(tokens - 1, 0, config.sequence));
}

bool fills_the_context(const modules::TransformerConfig& config, const std::vector<int64_t>& prompt, int64_t tokens) {
  return tokens - 1 > config.sequence - length(prompt);
}

std::string name_of(const Prompts& prompts, size_t row) {
  return prompts.size() == 1 ? "the prompt" : "prompt " + std::to_string(row + 1);
}

}  // namespace

void check_prompts(const modules::TransformerConfig& config, const Prompts& prompts, int64_t tokens) {
  int64_t shortest = config.sequence;
  for (size_t row = 0; row < prompts.size(); ++row) {
    const std::vector<int64_t>& prompt = prompts[row];
    const std::string name = name_of(prompts, row);
    shortest = std::min(shortest, length(prompt));
    if (fills_the_context(config, prompt, tokens)) shortest = std::min(shortest, half_of(config));
    if (prompt.empty()) {
      const std::string where = prompts.size() == 1 ? "--prompt TEXT or --prompt-ids IDS with " : "it ";
      throw Error(ExitCode::configuration, name + " is empty; give " + where + "one token at least");
    }
    if (length(prompt) >= config.sequence) {
      throw Error(ExitCode::configuration, name + " has " + std::to_string(prompt.size()) +
                                               " tokens, and the context of the model " +
                                               std::to_string(config.sequence) + "; give a shorter one");
    }
    for (const int64_t id : prompt) {
      if (id >= 0 && id < config.vocabulary) continue;
      throw Error(ExitCode::data, "token " + std::to_string(id) + " of " + name + " is outside of the vocabulary of " +
                                      std::to_string(config.vocabulary));
    }
  }
  check_no_later_keys(config, shortest, positions_of(config, prompts, tokens));
}

namespace {

// Copies tokens to the host, while the GPU does what is queued after them.
class HostCopy {
 public:
  void start(const Tensor& tokens) {
    if (!copy_.defined()) {
      copy_ = at::empty(tokens.sizes(), at::TensorOptions(at::kLong).pinned_memory(tokens.is_cuda()));
    }
    copy_.copy_(tokens, /*non_blocking=*/true);
    if (tokens.is_cuda()) event_.record();
  }
  std::span<const int64_t> wait() {
    event_.synchronize();
    return {copy_.const_data_ptr<int64_t>(), static_cast<size_t>(copy_.numel())};
  }

 private:
  Tensor copy_;
  at::cuda::CUDAEvent event_;
};

// Continues the prompts from `begin` to `end`.
void continue_batch(Decoder& decoder, const Prompts& prompts, size_t begin, size_t end, const Continuation& how,
                    const std::function<void(size_t row, int64_t token)>& take) {
  Prompts contexts(prompts.begin() + static_cast<std::ptrdiff_t>(begin),
                   prompts.begin() + static_cast<std::ptrdiff_t>(end));
  std::vector<bool> has_ended(contexts.size(), false);
  HostCopy on_host;
  Tensor logits = decoder.start(contexts, positions_of(decoder.config(), contexts, how.tokens));
  for (int64_t number = 0;; ++number) {
    const Tensor tokens = sample(logits, how.sampling, number);
    on_host.start(tokens);
    const bool is_last = number + 1 == how.tokens;
    if (!is_last) logits = decoder.next(tokens);  // does not wait for the host, which may find that all rows have ended
    const std::span<const int64_t> chosen = on_host.wait();
    for (size_t row = 0; row < contexts.size(); ++row) {
      if (has_ended[row]) continue;
      const int64_t token = chosen[row];
      if (token == kNoToken) {
        throw Error(ExitCode::numerics, "the logits of token " + std::to_string(number + 1) + " after " +
                                            name_of(prompts, begin + row) +
                                            " are NaN or infinite; give --step with a checkpoint of an earlier step");
      }
      const bool is_stop = std::find(how.stops.begin(), how.stops.end(), token) != how.stops.end();
      if (!is_stop) take(begin + row, token);
      contexts[row].push_back(token);
      has_ended[row] = is_stop || is_last;
    }
    if (std::find(has_ended.begin(), has_ended.end(), false) == has_ended.end()) return;
    for (size_t row = 0; row < contexts.size(); ++row) {
      std::vector<int64_t>& context = contexts[row];
      if (has_ended[row] || length(context) <= decoder.positions()) continue;
      context.erase(context.begin(), context.end() - half_of(decoder.config()));
      const auto place = static_cast<int64_t>(row);
      logits.narrow(0, place, 1).copy_(decoder.restart(place, context));
    }
  }
}

}  // namespace

void continue_prompts(Decoder& decoder, const Prompts& prompts, const Continuation& how,
                      const std::function<void(size_t row, int64_t token)>& take) {
  if (how.tokens == 0) return;
  const auto batch = static_cast<size_t>(how.batch);
  for (size_t begin = 0; begin < prompts.size(); begin += batch) {
    continue_batch(decoder, prompts, begin, std::min(begin + batch, prompts.size()), how, take);
  }
}

}  // namespace strata::generation
