// SPDX-License-Identifier: MIT
// Keys that were renamed: a user is told the new name, and runs from before can go on.
#include "trainer/config/renamed_keys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "configs/config_errors.h"
#include "tests/trainer/config/config_texts.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {
namespace {

// A text with the names that keys had before.
std::string with_old_names(std::string text) {
  const std::pair<std::string, std::string> names[] = {{"\nmemory_budget:", "\nmemory:"},
                                                       {"\n  kind:", "\n  do:"},
                                                       {"\n  repeats_after_rollback:", "\n  stays:"},
                                                       {"\n  sum_of_squares:", "\n  global_norm:"},
                                                       {"\n  compare_replicas_every:", "\n  compare_replicas:"}};
  for (const auto& [now, was] : names) {
    const size_t begin = text.find(now);
    EXPECT_NE(begin, std::string::npos) << now << text;
    text.replace(begin, now.size(), was);
  }
  return text;
}

TEST(RenamedKeys, AreRefusedInAFileOfAUser) {
  const auto said = [](const std::string& name, const std::string& text,
                       const std::vector<std::string>& overrides) -> std::string {
    try {
      parse_trainer_config(name, text, overrides);
      return "accepted";
    } catch (const configs::ConfigErrors& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      return error.what();
    }
  };
  const std::string text = config_with(14, "fault: {do: none}") + "memory: 20\n";
  EXPECT_EQ(said("run.yaml", text, {}),
            "run.yaml:14:9: fault.do: was renamed to fault.kind\n"
            "    fault: {do: none}\n"
            "            ^\n"
            "run.yaml:15:1: memory: was renamed to memory_budget\n"
            "    memory: 20\n"
            "    ^\n"
            "2 errors in the configuration\n");
  for (const char* name : {"run.yaml", "resolved.yaml"}) {
    const std::string of_override = said(name, config_with(0, ""), {"memory=20"});
    EXPECT_NE(of_override.find("memory: was renamed to memory_budget"), std::string::npos) << of_override;
    const std::string in_section = said(name, config_with(0, ""), {"sharding.compare_replicas=4"});
    EXPECT_NE(in_section.find("sharding.compare_replicas: was renamed to sharding.compare_replicas_every"),
              std::string::npos)
        << in_section;
  }
}

TEST(RenamedKeys, AreReadInWhatARunHasWritten) {
  const auto with_budget = [](const std::string& gibibytes) {
    return parse_trainer_config("run.yaml", config_with(0, ""),
                                {"memory_budget=" + gibibytes, "kernels.sum_of_squares=torchscript"});
  };
  const TrainerConfig now = with_budget("20").config;
  const std::string before = with_old_names(with_budget("20").resolved());
  EXPECT_EQ(differences_that_forbid_resuming(before, now, 5), std::vector<std::string>{});
  EXPECT_EQ(differences_that_forbid_resuming(before, with_budget("21").config, 5),
            std::vector<std::string>{"memory_budget: was 20, now 21"});
  const std::string path = testing::TempDir() + "/resolved.yaml";
  std::ofstream(path) << before;
  EXPECT_EQ(difference_from_folder(now, path, 5), "");
  const TrainerConfig read = load_trainer_config(path, {}).config;
  EXPECT_EQ(read.memory_budget, 20);
  EXPECT_EQ(read.kernels.levels.sum_of_squares, kernels::Level::torchscript);
}

// Old and new name are of one section, and only the new one is a key.
TEST(RenamedKeys, OnlyTheNewNamesAreKeys) {
  std::string page = reference_page();
  for (size_t index = 0; (index = page.find(".N.")) != std::string::npos;) page.erase(index, 2);
  for (const auto& [was, now] : kRenamedKeys) {
    const size_t section = now.rfind('.') + 1;
    EXPECT_EQ(was.substr(0, section), now.substr(0, section));
    EXPECT_NE(page.find("| `" + now + "` |"), std::string::npos) << now;
    EXPECT_EQ(page.find("| `" + was + "` |"), std::string::npos) << was;
  }
}

}  // namespace
}  // namespace strata::trainer
