// SPDX-License-Identifier: MIT
// generate RUN: samples from the newest checkpoint of a language model. It prints text for byte tokens, ids for others.
#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/run_program.h"
#include "kernels/runtime/product_sums.h"
#include "tools/generation/chosen_kernels.h"
#include "tools/generation/continue_prompts.h"
#include "tools/generation/decoder.h"
#include "tools/generation/load_run.h"
#include "tools/generation/placement.h"
#include "tools/generation/prompt_lines.h"
#include "tools/programs.h"

namespace strata::generation {
namespace {

struct Request {
  std::string run;
  std::optional<std::string> prompt;
  std::vector<int64_t> prompt_ids;
  std::string prompts;  // file; empty: none
  bool is_chat = false;
  Continuation how;
  std::optional<int64_t> step;
  Placement placement;
};

constexpr int64_t kDocumentEnd = 256;  // ids below are bytes; this one ends a document

// Prints one prompt and what comes after it as soon as it is known: bytes as they are, ids one a line.
class Printer {
 public:
  explicit Printer(bool as_text) : as_text_(as_text), for_a_terminal_(isatty(STDOUT_FILENO) == 1) {}

  void print(int64_t id) {
    if (!as_text_) {
      std::printf("%lld\n", static_cast<long long>(id));
      return;
    }
    // A model may write any byte, and a terminal obeys control characters: also U+0080 to U+009F, the byte 0xc2 and
    // one below 0xa0.
    const bool is_c1 = before_ == 0xc2 && id >= 0x80 && id < 0xa0;
    const bool is_control = (id < ' ' && id != '\n' && id != '\t') || id == 0x7f || is_c1;
    std::putchar(for_a_terminal_ && is_control ? '?' : static_cast<int>(id));
    before_ = id;
  }

 private:
  bool as_text_, for_a_terminal_;
  int64_t before_ = 0;
};

std::vector<PromptLine> prompts_of(const Request& request) {
  if (!request.prompts.empty()) return read_prompt_lines(request.prompts);
  PromptLine line{request.prompt_ids, request.prompt.has_value()};
  for (const char letter : request.prompt.value_or("")) line.ids.push_back(static_cast<unsigned char>(letter));
  return {line};
}

bool is_model_of_bytes(int64_t vocabulary) { return vocabulary == kDocumentEnd || vocabulary == kDocumentEnd + 1; }

void require_model_of_bytes(int64_t vocabulary) {
  if (is_model_of_bytes(vocabulary)) return;
  throw Error(ExitCode::configuration, "--prompt needs a model of bytes, and this one has a vocabulary of " +
                                           std::to_string(vocabulary) + "; give --prompt-ids");
}

void check_stops(const std::vector<int64_t>& stops, int64_t vocabulary) {
  for (const int64_t id : stops) {
    if (id >= 0 && id < vocabulary) continue;
    throw Error(ExitCode::configuration, "--stop-ids: " + std::to_string(id) + " is outside of the vocabulary of " +
                                             std::to_string(vocabulary) + "; expected 0 to " +
                                             std::to_string(vocabulary - 1));
  }
}

void generate(Request request) {
  // tools/text/generate_text.py takes this option if there is a text and a tokenizer.
  if (request.is_chat) {
    throw Error(ExitCode::configuration,
                "--chat needs --prompt TEXT or --prompts FILE, and a tokenizer of the data or of the imported weights");
  }
  const c10::InferenceMode inference;
  kernels::accumulate_products_in_fp32();
  std::vector<PromptLine> lines = prompts_of(request);
  const at::TensorOptions options = request.placement.tensor_options();
  const trainer::LoadedConfig config = config_of_run(request.run);
  const std::optional<modules::KernelsConfig> kernels = chosen_kernels(request.placement.kernels, config, options);
  const LoadedRun run = load_run(request.run, config.config, request.step, options);
  const bool has_text = std::any_of(lines.begin(), lines.end(), [](const PromptLine& line) { return line.is_text; });
  if (has_text) require_model_of_bytes(run.config.vocabulary);
  check_stops(request.how.stops, run.config.vocabulary);
  // The end of a line of a file does not depend on the other lines.
  const bool ends_with_document = request.prompt.has_value() || !request.prompts.empty();
  if (ends_with_document && is_model_of_bytes(run.config.vocabulary)) request.how.stops.push_back(kDocumentEnd);
  Prompts prompts;
  for (const PromptLine& line : lines) prompts.push_back(line.ids);
  check_prompts(run.config, prompts, request.how.tokens);

  Decoder decoder(
      run.config, run.formats, [&](const std::string& name) { return run.weights.at(name); }, options.device(),
      request.placement.captures(), kernels);
  Printer printer(has_text);
  const bool is_streamed = request.prompts.empty();
  if (is_streamed) {
    for (const int64_t id : prompts[0]) printer.print(id);
  }
  continue_prompts(decoder, prompts, request.how, [&](size_t row, int64_t id) {
    lines[row].ids.push_back(id);
    if (!is_streamed) return;
    printer.print(id);
    std::fflush(stdout);
  });
  if (is_streamed && has_text) std::putchar('\n');
  if (!is_streamed) {
    for (const PromptLine& line : lines) std::puts(to_line(line).c_str());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(ExitCode::storage, "the results cannot be written to the standard output");
  }
}

// Returns nothing for a good temperature.
std::string problem_of_temperature(const std::string& text) {
  const double temperature = std::strtod(text.c_str(), nullptr);
  const bool is_good = temperature == 0 || (temperature >= 1e-6 && temperature <= 1e6);
  return is_good ? "" : "the temperature is " + text + "; expected 0 or 1e-6 to 1e6";
}

std::string problem_of_top_p(const std::string& text) {
  const double top_p = std::strtod(text.c_str(), nullptr);
  return top_p > 0 && top_p <= 1 ? "" : "top-p is " + text + "; expected more than 0 and at most 1";
}

}  // namespace
}  // namespace strata::generation

int strata::programs::generate_main(int count, char** arguments) {
  using namespace strata;
  generation::Request request;
  auto& sampling = request.how.sampling;
  CLI::App app("Samples from the newest checkpoint of a run.", "generate");
  app.add_option("RUN", request.run, "folder of the run")->required();
  auto* text = app.add_option("--prompt", request.prompt, "text to go on from; needs tokens of bytes, or a tokenizer");
  auto* ids = app.add_option("--prompt-ids", request.prompt_ids, "token ids to go on from; ids are printed, one a line")
                  ->excludes(text);
  app.add_option(
         "--prompts", request.prompts,
         R"(file of prompts, which are continued in batches: lines such as {"text": "Once"} or {"ids": [5, 6]}; )"
         "the results are printed as such lines, with their prompts")
      ->excludes(text)
      ->excludes(ids);
  app.add_flag("--chat", request.is_chat,
               "each text is the message of a user, and the answer alone is printed; needs a chat template");
  app.add_option("--tokens", request.how.tokens, "how many to add at most")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", sampling.temperature, "0: the likeliest token; otherwise 1e-6 to 1e6")
      ->capture_default_str()
      ->check(generation::problem_of_temperature);
  app.add_option("--top-k", sampling.top_k, "choose among this number of likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", sampling.top_p, "and among the fewest of them whose probabilities sum to this")
      ->capture_default_str()
      ->check(generation::problem_of_top_p);
  app.add_option("--seed", sampling.seed, "of the choices; they depend on nothing else of a batch")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--stop-ids", request.how.stops, "tokens that end a sample and are not printed");
  app.add_option("--batch", request.how.batch, "how many prompts of a file are continued together, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  request.placement.add_options(app);
  app.add_option("--step", request.step, "of the checkpoint; otherwise the newest that is whole");
  return run_program(app, count, arguments, [&] { generation::generate(request); });
}
