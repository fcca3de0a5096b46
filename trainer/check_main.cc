// SPDX-License-Identifier: MIT
// check CONFIG [a.b.c=value ...]: reports all errors of a configuration, without MPI and LibTorch.
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/end_process.h"
#include "base/errors.h"
#include "base/text/printable.h"
#include "trainer/config/launcher_facts.h"
#include "trainer/config/load_config.h"
#include "trainer/config/seen_targets.h"

namespace strata::trainer {
namespace {

constexpr char kUsage[] =
    "check CONFIG [a.b.c=value ...]   say all that is wrong with a configuration; exit code 2 if anything is\n"
    "  --ranks N      as run.ranks=N\n"
    "  --resolved     print the whole configuration as YAML\n"
    "  --to-train     also refuse what only training refuses: targets that attention shows\n"
    "  --for-launcher print what tools/strata asks: lines with a name, a tab and a value\n"
    "check --help-keys | --reference | --schema   all keys: as text, as a page of Markdown, as a JSON Schema\n";

const std::set<std::string> kModes = {"--resolved", "--for-launcher"};

struct Arguments {
  std::string mode;  // one of kModes; empty: only check
  bool starts_training = false;
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
    } else if (word == "--to-train") {
      arguments.starts_training = true;
    } else if (kModes.contains(word)) {
      if (!arguments.mode.empty()) refuse("expected --resolved or --for-launcher, not both");
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
  if (arguments.starts_training) check_targets(loaded);
  if (arguments.mode == "--resolved") std::fputs(loaded.resolved().c_str(), stdout);
  if (arguments.mode == "--for-launcher") std::fputs(launcher_facts(loaded).c_str(), stdout);
}

}  // namespace
}  // namespace strata::trainer

int main(int argc, char** argv) {
  try {
    strata::trainer::run({argv + 1, argv + argc});
    strata::end_process(0);
  } catch (const strata::Error& error) {
    std::string message = strata::printable_lines(error.what());
    if (!message.ends_with('\n')) message += '\n';
    std::fputs(message.c_str(), stderr);
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "check: %s\n", strata::printable_lines(error.what()).c_str());
    return static_cast<int>(strata::ExitCode::internal);
  }
}
