// SPDX-License-Identifier: MIT
// The report has each distinct pattern once, with shares counted by hand, and a picture of it.
#include "trainer/levels/pattern_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/errors.h"
#include "base/files/temporary_folder.h"
#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

const std::string kLayers = "layers: [{only: 0-2 step 2, attention: causal & window(64)}]";

// 256 positions have 4 x 4 tiles of 64 x 64.
TrainerConfig config_of(const std::vector<std::string>& overrides) {
  return parse_trainer_config("run.yaml", config_with({{13, kLayers}}), overrides).config;
}

std::string report_of(const TrainerConfig& config) { return pattern_report(attention_of_run(config), config.kernels); }

std::vector<std::string> pictures_of(const TrainerConfig& config, const std::string& folder) {
  return write_pattern_pictures(config.model, config.data, folder);
}

TEST(PatternReport, HasSharesAndLevelsOfEachPattern) {
  // Window: 64 x 65 / 2 + 192 x 64 = 14,368 of 65,536 pairs, in 4 + 3 of 16 tiles. Causal: 32,896 pairs, in 10 tiles.
  EXPECT_EQ(report_of(config_of({"model.sequence=256", "kernels.default=cuda",
                                 "kernels.layers=[{only: 0, attention: aten}, {only: 3, attention: triton}]"})),
            "attention of 256 positions:\n"
            "  causal & window(64) in layers 0, 2: 21.9 % of pairs are visible, in 43.8 % of tiles of 64 x 64\n"
            "    layer 0: level aten computes all pairs (100 % of tiles), and stores T x T booleans\n"
            "    layer 2: level cuda computes the tiles with visible pairs, of its own size, and stores nothing for "
            "each pair\n"
            "  causal in layers 1, 3: 50.2 % of pairs are visible, in 62.5 % of tiles of 64 x 64\n"
            "    layer 3: level triton computes the tiles with visible pairs, of its own size, and stores nothing for "
            "each pair\n"
            "    layer 1: level cuda computes the tiles with visible pairs, of its own size, and stores nothing for "
            "each pair\n");
}

// Chunks of 64 positions. Of the window, rank 0 has 2,080 + 4,096 of 14,368 pairs, and rank 1 has 2 x 4,096.
TEST(PatternReport, HasTheBusiestOfRanksThatShareASequence) {
  EXPECT_EQ(
      report_of(config_of({"model.sequence=256", "kernels.default=triton", "kernels.attention=aten", "run.ranks=2",
                           "sharding.sequence=2"})),
      "attention of 256 positions:\n"
      "  causal & window(64) in layers 0, 2: 21.9 % of pairs are visible, in 43.8 % of tiles of 64 x 64\n"
      "    of 2 ranks that share a sequence, the busiest computes 57 % of the visible pairs\n"
      "    level aten computes all pairs (100 % of tiles), and stores booleans of a chunk of queries and T keys\n"
      "  causal in layers 1, 3: 50.2 % of pairs are visible, in 62.5 % of tiles of 64 x 64\n"
      "    of 2 ranks that share a sequence, the busiest computes 50 % of the visible pairs\n"
      "    level aten computes all pairs (100 % of tiles), and stores booleans of a chunk of queries and T keys\n");
}

TEST(PatternReport, OfSeparateDocumentsHasTheMostShares) {
  EXPECT_EQ(
      report_of(config_of({"model.sequence=256", "kernels.default=aten", "data.documents=separate"})),
      "attention of 256 positions:\n"
      "  causal & window(64) & documents in layers 0, 2: at most 21.9 % of pairs are visible, in 43.8 % of tiles of "
      "64 x 64\n"
      "    level aten computes all pairs (100 % of tiles), and stores T x T booleans\n"
      "  causal & documents in layers 1, 3: at most 50.2 % of pairs are visible, in 62.5 % of tiles of 64 x 64\n"
      "    level aten computes all pairs (100 % of tiles), and stores T x T booleans\n");
}

TEST(PatternReport, NamesTermsAndWhatTheyStore) {
  EXPECT_EQ(report_of(config_of({"model.sequence=256", "kernels.default=aten", "layers=[]", "model.alibi=true",
                                 "model.softcap=2.5", "model.sinks=true"})),
            "attention of 256 positions, with alibi, softcap 2.5, sinks:\n"
            "  causal in layers 0-3: 50.2 % of pairs are visible, in 62.5 % of tiles of 64 x 64\n"
            "    level aten computes all pairs (100 % of tiles), and stores the scores of all pairs\n");
}

TEST(PatternReport, OfBestAndOfLongRowsAndOfOtherModels) {
  const std::string best = report_of(config_of({"kernels.default=best"}));
  EXPECT_NE(best.find("    level best: a plan chooses it\n"), std::string::npos) << best;
  EXPECT_EQ(report_of(config_of({"kernels.default=best", "kernels.attention=torchscript"})).find("best"),
            std::string::npos);
  const std::string longest = report_of(config_of({"model.sequence=200000"}));
  EXPECT_NE(longest.find("tiles are counted up to 131072 positions"), std::string::npos) << longest;
  TrainerConfig mixer;
  mixer.model.type = modules::MixerConfig{};
  EXPECT_EQ(report_of(mixer), "");
  EXPECT_THROW(pictures_of(mixer, "unused"), Error);
}

TEST(PatternPictures, AreWrittenForEachPattern) {
  const TemporaryFolder folder;
  const std::string inner = folder.path() + "/a/b";
  const auto paths = pictures_of(config_of({}), inner);
  EXPECT_EQ(paths, (std::vector<std::string>{inner + "/attention_layer_0.svg", inner + "/attention_layer_1.svg"}));
  std::ifstream file(paths.at(0));
  const std::string picture{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(picture.starts_with("<svg ")) << picture;
  EXPECT_NE(picture.find(">causal &amp; window(64)<"), std::string::npos) << picture;
  std::ofstream(folder.path() + "/file") << "no folder";
  EXPECT_THROW(pictures_of(config_of({}), folder.path() + "/file/b"), Error);
  // A link is replaced, and what it names stays.
  std::filesystem::remove(paths.at(0));
  std::filesystem::create_symlink(folder.path() + "/file", paths.at(0));
  pictures_of(config_of({}), inner);
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(paths.at(0))));
  EXPECT_EQ(std::filesystem::file_size(folder.path() + "/file"), 9u);
  std::filesystem::remove(paths.at(0));
  std::filesystem::create_directory(paths.at(0));
  EXPECT_THROW(pictures_of(config_of({}), inner), Error);
}

// A row of 256 positions has four of 25, 51, 77 and 103.
TEST(PatternPictures, OfSeparateDocumentsHaveFourInARow) {
  const TemporaryFolder folder;
  const auto path_of = [&](const char* documents) {
    return pictures_of(config_of({"model.sequence=256", "layers=[]", documents}), folder.path()).at(0);
  };
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string apart = text_of(path_of("data.documents=separate"));
  EXPECT_NE(apart.find(">causal &amp; documents<"), std::string::npos) << apart;
  EXPECT_NE(apart.find(">15.3 % of the pairs of 256 positions are visible<"), std::string::npos) << apart;
  EXPECT_NE(text_of(path_of("data.documents=joined")).find(">causal<"), std::string::npos);
}

}  // namespace
}  // namespace strata::trainer
