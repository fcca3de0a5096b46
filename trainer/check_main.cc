// SPDX-License-Identifier: MIT
// check CONFIG [a.b.c=value ...]: reports all errors of a configuration, without MPI and LibTorch.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/grouped_digits.h"
#include "configs/config_errors.h"
#include "modules/config/parameter_table.h"
#include "trainer/config/graph_data.h"
#include "trainer/config/launcher_facts.h"
#include "trainer/config/load_config.h"
#include "trainer/memory/peak_memory.h"

namespace strata::trainer {
namespace {

constexpr char kUsage[] =
    "check CONFIG [a.b.c=value ...]   say all that is wrong with a configuration; exit code 2 if anything is\n"
    "  --ranks N      as run.ranks=N\n"
    "  --validate     print every value with its origin, parameters, FLOPs per token, memory per rank\n"
    "  --resolved     print the whole configuration as YAML\n"
    "  --for-launcher print what tools/strata asks: lines with a name, a tab and a value\n"
    "check --help-keys | --reference | --schema   all keys: as text, as a page of Markdown, as a JSON Schema\n";

const std::set<std::string> kModes = {"--validate", "--resolved", "--for-launcher"};

struct Arguments {
  std::string mode;  // one of kModes; empty: only check
  std::string path;
  std::vector<std::string> overrides;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitCode::configuration, "check: " + message + "\n" + kUsage);
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto next = [&]() -> const std::string& {
      if (i + 1 == words.size()) refuse("expected a value after " + word);
      return words[++i];
    };
    if (word == "--ranks") {
      arguments.overrides.push_back("run.ranks=" + next());
    } else if (kModes.contains(word)) {
      if (!arguments.mode.empty()) refuse("expected one of --validate, --resolved, --for-launcher");
      arguments.mode = word;
    } else if (word.starts_with("--") && word.find('=') == std::string::npos) {
      refuse("unknown option " + word + "; a key of the configuration is given as " + word.substr(2) + "=VALUE");
    } else if (arguments.path.empty()) {
      arguments.path = word;
    } else {
      arguments.overrides.push_back(word);
    }
  }
  if (arguments.path.empty()) refuse("expected a configuration");
  return arguments;
}

void print_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table) {
  using sharding::DeviceWish;
  const DeviceWish wish = config.run.device;
  const char* const devices = wish == DeviceWish::cpu    ? "CPUs"
                              : wish == DeviceWish::cuda ? "GPUs"
                                                         : "GPUs, which run.device auto takes where there are any";
  std::printf("\nbytes per rank on %lld rank%s, on %s:\n%s", static_cast<long long>(config.run.ranks),
              config.run.ranks == 1 ? "" : "s", devices, memory_table(config, table).c_str());
}

void print_sizes(const TrainerConfig& config, const auto& model) {
  const auto table = modules::parameter_table(model);
  std::printf("\nparameters: %s\n", grouped_digits(modules::parameter_count(table)).c_str());
  const double flops = modules::flops_per_item(model);
  const std::string item(model.kItem);
  std::printf("FLOPs per %s, forward and backward: %.4g (%s)\n", item.c_str(), flops,
              grouped_digits(static_cast<int64_t>(flops)).c_str());
  if (shares_samples(config.model, config.data)) {
    std::printf("samples per step: the whole graph, spread over %lld rank%s\n",
                static_cast<long long>(config.run.ranks), config.run.ranks == 1 ? "" : "s");
  } else {
    std::printf("samples per step: %lld = %lld micro-batches x %lld samples x %lld ranks, of %lld %s\n",
                static_cast<long long>(config.batch), static_cast<long long>(config.micro_batches()),
                static_cast<long long>(config.micro_batch), static_cast<long long>(config.run.ranks),
                static_cast<long long>(model.items_per_sample()),
                ((has_many_graphs(config.data) ? "graph" : item) + (model.items_per_sample() == 1 ? "" : "s")).c_str());
  }
  print_memory(config, table);
}

void print_all(const LoadedConfig& loaded) {
  const std::vector<configs::Line> lines = loaded.lines();
  size_t path_width = 0, value_width = 0;
  for (const configs::Line& line : lines) {
    path_width = std::max(path_width, line.path.size());
    value_width = std::max(value_width, line.value.size());
  }
  for (const configs::Line& line : lines) {
    std::printf("%-*s  %-*s  %s\n", static_cast<int>(path_width), line.path.c_str(), static_cast<int>(value_width),
                line.value.c_str(), line.origin.c_str());
  }
  std::visit([&](const auto& model) { print_sizes(loaded.config, model); }, loaded.config.model.type);
}

void run(const std::vector<std::string>& words) {
  static const std::map<std::string, std::function<std::string()>> kTexts = {
      {"--help", [] { return std::string(kUsage); }},
      {"--help-keys", help_text},
      {"--reference", reference_page},
      {"--schema", json_schema}};
  if (words.size() == 1 && kTexts.contains(words[0])) {
    std::fputs(kTexts.at(words[0])().c_str(), stdout);
    return;
  }
  const Arguments arguments = parse(words);
  const LoadedConfig loaded = load_trainer_config(arguments.path, arguments.overrides);
  if (arguments.mode == "--validate") print_all(loaded);
  if (arguments.mode == "--resolved") std::fputs(loaded.resolved().c_str(), stdout);
  if (arguments.mode == "--for-launcher") std::fputs(launcher_facts(loaded).c_str(), stdout);
}

}  // namespace
}  // namespace strata::trainer

int main(int argc, char** argv) {
  try {
    strata::trainer::run({argv + 1, argv + argc});
    return 0;
  } catch (const strata::Error& error) {
    std::string message = error.what();
    if (!message.ends_with('\n')) message += '\n';
    std::fputs(message.c_str(), stderr);
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "check: %s\n", error.what());
    return static_cast<int>(strata::ExitCode::internal);
  }
}
