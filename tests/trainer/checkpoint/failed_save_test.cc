// SPDX-License-Identifier: MIT
// Checks saves that fail as a whole or in part: what is refused before the commit, and what a commit survives.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/errors.h"
#include "tests/base/no_threads.h"
#include "tests/trainer/checkpoint/small_model.h"
#include "tests/trainer/checkpoint/virtual_ranks.h"
#include "tests/trainer/test_files.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

TEST(FailedSave, AFailureIsKnownToAllRanksAndTheThirdInARowStops) {
  const TemporaryFolder folder;
  run_ranks(2, [&](const Ranks& ranks) {
    CheckpointWriter writer({.folder = folder.path()}, ranks);
    const auto save = [&](int64_t step, bool spoiled) {
      auto pieces = small_model(ranks.rank, ranks.size, step);
      if (spoiled && ranks.rank == 1) pieces.push_back(pieces[0]);  // the same tensor twice is refused while writing
      writer.start_save(step, pieces, fixed_state(""));
      return *writer.finish();
    };
    EXPECT_TRUE(save(1, false).committed);
    const SaveOutcome failed = save(2, true);
    EXPECT_FALSE(failed.committed);
    EXPECT_NE(failed.message.find("rank 1: embedding.weight/master"), std::string::npos) << failed.message;
    EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"latest", "step-00000001"}));
    EXPECT_FALSE(save(3, true).committed);
    EXPECT_TRUE(save(4, false).committed);  // the count of failures starts again
    EXPECT_FALSE(save(5, true).committed);
    EXPECT_FALSE(save(6, true).committed);
    try {
      save(7, true);
      ADD_FAILURE() << "the third failure in a row was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::storage);
      EXPECT_NE(std::string(error.what()).find("3 saves in a row"), std::string::npos) << error.what();
    }
  });
  EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.step, 4);
}

TEST(FailedSave, FilesThatRankZeroDoesNotFindAreNotCommitted) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 2, 1);
  const std::string name = "rank-00001.safetensors";
  const auto save_and_then = [&](const std::function<void(const fs::path&)>& damage) {
    std::string message;
    run_ranks(2, [&](Ranks ranks) {
      const auto gather = ranks.gather;
      ranks.gather = [&, gather](const std::string& text) {
        if (ranks.rank == 1 && text.find(name) != std::string::npos) {  // the report: the file is written
          for (const auto& entry : fs::directory_iterator(folder.path())) {
            if (entry.path().filename().string().starts_with("step-00000002.tmp-")) damage(entry.path() / name);
          }
        }
        return gather(text);
      };
      CheckpointWriter writer({.folder = folder.path()}, ranks);
      writer.start_save(2, small_model(ranks.rank, ranks.size, 2), fixed_state(""));
      const SaveOutcome outcome = *writer.finish();
      EXPECT_FALSE(outcome.committed);
      if (ranks.rank == 0) message = outcome.message;
    });
    EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"latest", "step-00000001"}));
    EXPECT_NE(message.find("rank 1 has written "), std::string::npos) << message;
    return message;
  };
  const std::string removed = save_and_then([](const fs::path& path) { fs::remove(path); });
  EXPECT_NE(removed.find("No such file"), std::string::npos) << removed;
  const std::string cut = save_and_then([](const fs::path& path) { fs::resize_file(path, 10); });
  EXPECT_NE(cut.find("has 10 bytes"), std::string::npos) << cut;
}

TEST(FailedSave, AManifestThatCannotBeReadAgainIsNotCommitted) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 1, 1);
  CheckpointWriter writer({.folder = folder.path()}, {});
  writer.start_save(2, small_model(0, 1, 2), fixed_state(std::string(64'000'000, 'x')));
  const SaveOutcome outcome = *writer.finish();
  EXPECT_FALSE(outcome.committed);
  EXPECT_NE(outcome.message.find("at most 64000000 bytes"), std::string::npos) << outcome.message;
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"latest", "step-00000001"}));
}

TEST(FailedSave, PiecesMustCoverEveryTensorOnce) {
  const TemporaryFolder folder;
  CheckpointWriter writer({.folder = folder.path()}, {});
  const auto message = [&](int64_t offset, int64_t count) {
    writer.start_save(1, {{"a/master", {4, 2}, offset, at::zeros({count})}}, fixed_state(""));
    try {
      const SaveOutcome outcome = *writer.finish();
      return outcome.committed ? "committed" : outcome.message;
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(0, 7),
            "checkpoint of step 1 not saved, older ones are as they were: "
            "a/master: the pieces have 7 elements, the tensor 8");
  EXPECT_NE(message(1, 7).find("a/master: a piece begins at element 1, expected 0"), std::string::npos);
  EXPECT_NE(message(0, 9).find("the pieces have 9 elements"), std::string::npos);
  EXPECT_EQ(message(0, 8), "committed");
}

// After `cp -rL` of a run `latest` is a folder, and no link can take its place.
TEST(FailedSave, OldCheckpointsAreRemovedAlsoIfTheHintCannotBeWritten) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() + "/latest/of-a-copy");
  CheckpointWriter writer({.folder = folder.path(), .keep = 2}, {});
  for (const int64_t step : {1, 2, 3, 4}) {
    writer.start_save(step, small_model(0, 1, step), fixed_state(""));
    const SaveOutcome outcome = *writer.finish();
    EXPECT_TRUE(outcome.committed);
    EXPECT_NE(outcome.message.find("/latest failed: "), std::string::npos) << outcome.message;
  }
  std::vector<std::string> names = names_in(folder.path());
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("step-"); });
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000003", "step-00000004"}));
}

TEST(FailedSaveDeathTest, ARankThatCannotStartAThreadFailsTheSave) {
  const TemporaryFolder folder;
  const auto run = [&] {
    CheckpointWriter writer({.folder = folder.path()}, {});
    refuse_threads();
    writer.start_save(1, small_model(0, 1, 1), fixed_state(""));
    const SaveOutcome outcome = *writer.finish();
    std::fprintf(stderr, "%s\n", outcome.message.c_str());
    std::_Exit(outcome.committed || !names_in(folder.path()).empty() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "checkpoint of step 1 not saved.*no thread could be started");
}

// The folder of the rejected step 30 cannot be renamed at first. Nothing of this may reach the good checkpoint of step
// 20, which has taken the place of a rejected one.
TEST(FailedSave, ACheckpointInThePlaceOfARejectedOneIsKept) {
  const TemporaryFolder folder;
  for (const int64_t step : {20, 30}) save_small_model(folder.path(), 1, step);
  Ranks rank;
  std::string id;  // id of the writer: the first text that it gathers
  rank.gather = [&](const std::string& text) {
    if (id.empty()) id = text.substr(1);
    return std::vector<std::string>{text};
  };
  CheckpointWriter writer({.folder = folder.path(), .keep = 3, .rejected = {30, 20}}, rank);
  const std::string obstacle = folder.path() + "/step-00000030.rejected-" + id;
  fs::create_directories(obstacle + "/full");
  const auto save = [&](int64_t step) {
    writer.start_save(step, small_model(0, 1, step), fixed_state(""));
    const SaveOutcome outcome = *writer.finish();
    EXPECT_TRUE(outcome.committed) << outcome.message;
    return outcome.message;
  };
  for (const int64_t step : {20, 21}) EXPECT_NE(save(step).find("rename to " + obstacle), std::string::npos);
  fs::remove_all(obstacle);
  EXPECT_EQ(save(22), "");
  const std::string end = ".rejected-" + id;
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"latest", "step-00000020", "step-00000020" + end, "step-00000021",
                                      "step-00000022", "step-00000030" + end}));
}

}  // namespace
}  // namespace strata::trainer
