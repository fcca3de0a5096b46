// SPDX-License-Identifier: MIT
// Checks saving and loading without damage: any number of ranks, the checkpoints that are kept, and the cost of a save.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/digest.h"
#include "base/errors.h"
#include "tests/trainer/checkpoint/small_model.h"
#include "tests/trainer/checkpoint/virtual_ranks.h"
#include "tests/trainer/test_files.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

struct RankCounts {
  int saving, loading;
};

class CheckpointRanks : public testing::TestWithParam<RankCounts> {};

TEST_P(CheckpointRanks, LoadsWhatWasSaved) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), GetParam().saving, 40);
  run_ranks(GetParam().loading, [&](const Ranks& ranks) {
    const auto found = find_checkpoint({.folder = folder.path()}, ranks);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->manifest.step, 40);
    EXPECT_EQ(found->manifest.state, small_state(40));
    EXPECT_TRUE(found->notes.empty());
    const auto pieces = small_model(ranks.rank, ranks.size, 40, /*filled=*/false);
    load_checkpoint(*found, pieces, ranks);
    EXPECT_EQ(difference_from(pieces, ranks.rank, ranks.size, 40), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, CheckpointRanks,
                         testing::Values(RankCounts{1, 1}, RankCounts{1, 2}, RankCounts{2, 1}, RankCounts{2, 2},
                                         RankCounts{2, 3}, RankCounts{2, 4}, RankCounts{3, 2}, RankCounts{4, 1},
                                         RankCounts{4, 3}, RankCounts{3, 4}),
                         [](const auto& info) {
                           return std::to_string(info.param.saving) + "to" + std::to_string(info.param.loading);
                         });

// Returns the hash of the fp32 tensors over all ranks.
std::string gathered_hash(const std::vector<TensorPiece>& pieces, const Ranks& ranks) {
  nlohmann::json sums;
  for (const TensorPiece& piece : pieces) {
    if (piece.data.scalar_type() != at::kFloat) continue;
    const ContentSum sum = sum_of_piece(piece.data.const_data_ptr<float>(), piece.data.numel(), piece.offset);
    sums[piece.tensor] = {sum.low, sum.high};
  }
  std::vector<ParameterContent> contents;
  for (const std::string& text : ranks.gather(sums.dump())) {
    size_t i = 0;
    for (const TensorPiece& piece : pieces) {
      if (piece.data.scalar_type() != at::kFloat) continue;
      const nlohmann::json sum = nlohmann::json::parse(text)[piece.tensor];
      if (i == contents.size()) contents.push_back({piece.tensor, piece.shape, {}});
      contents[i++].sum += ContentSum{sum[0].get<uint64_t>(), sum[1].get<uint64_t>()};
    }
  }
  return weights_sha256(contents);
}

TEST(Checkpoint, TheWeightsStayTheSameThroughChangesOfTheNumberOfRanks) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 1, 1);
  const std::string first = gathered_hash(small_model(0, 1, 1), {});
  int64_t step = 1;
  for (const int size : {2, 4, 3, 1}) {
    run_ranks(size, [&](const Ranks& ranks) {
      const auto found = find_checkpoint({.folder = folder.path(), .required = true}, ranks);
      const auto pieces = small_model(ranks.rank, ranks.size, 1, /*filled=*/false);
      load_checkpoint(*found, pieces, ranks);
      EXPECT_EQ(gathered_hash(pieces, ranks), first);
      CheckpointWriter writer({.folder = folder.path(), .resumed_step = step}, ranks);
      writer.start_save(step + 1, pieces, fixed_state(""));
      EXPECT_TRUE(writer.finish()->committed);
    });
    ++step;
  }
  EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.step, 5);
}

TEST(Checkpoint, AnyNumberOfRanksFindsTheSameHashOfTheWeights) {
  std::vector<ParameterContent> weights;
  for (const TensorPiece& piece : small_model(0, 1, 9)) {
    if (!piece.tensor.ends_with("/master")) continue;
    const ContentSum sum = sum_of_piece(piece.data.const_data_ptr<float>(), piece.data.numel(), 0);
    weights.push_back({piece.tensor.substr(0, piece.tensor.size() - 7), piece.shape, sum});
  }
  ASSERT_EQ(weights.size(), 3);
  const std::string expected = weights_sha256(weights);
  for (const int size : {1, 2, 3, 4}) {
    const TemporaryFolder folder;
    run_ranks(size, [&](const Ranks& ranks) {
      CheckpointWriter writer({.folder = folder.path()}, ranks);
      writer.start_save(9, small_model(ranks.rank, ranks.size, 9),
                        [](const std::string& weights_sha256) { return "weights " + weights_sha256; });
      const SaveOutcome outcome = *writer.finish();
      EXPECT_EQ(outcome.weights_sha256, ranks.rank == 0 ? expected : "") << size;
    });
    EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.state, "weights " + expected) << size;
  }
}

TEST(Checkpoint, NothingThereIsNothingUnlessRequired) {
  const TemporaryFolder folder;
  EXPECT_FALSE(find_checkpoint({.folder = folder.path() + "/none"}, {}).has_value());
  EXPECT_FALSE(find_checkpoint({.folder = folder.path()}, {}).has_value());
  EXPECT_THROW(find_checkpoint({.folder = folder.path(), .required = true}, {}), Error);
  save_small_model(folder.path(), 1, 8);
  EXPECT_EQ(find_checkpoint({.folder = folder.path(), .step = 8}, {})->manifest.step, 8);
  EXPECT_THROW(find_checkpoint({.folder = folder.path(), .step = 9}, {}), Error);
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryFolder folder;
  CheckpointWriter writer({.folder = folder.path(), .keep = 3}, {});
  for (const int64_t step : {5, 10, 15, 20, 123456789}) {
    writer.start_save(step, small_model(0, 1, step), fixed_state(""));
    EXPECT_TRUE(writer.finish()->committed);
  }
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"latest", "step-00000015", "step-00000020", "step-123456789"}));
  EXPECT_EQ(fs::read_symlink(folder.path() + "/latest"), "step-123456789");
  EXPECT_EQ(names_in(folder.path() + "/latest/"),
            (std::vector<std::string>{"manifest.json", "rank-00000.safetensors"}));
  EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.step, 123456789);
  EXPECT_THROW(CheckpointWriter({.folder = folder.path(), .keep = 1}, {}), Error);
}

TEST(Checkpoint, KeepsMilestonesBesideTheNewest) {
  const TemporaryFolder folder;
  const auto steps_after = [&](const CheckpointWriter::Options& options, std::vector<int64_t> steps) {
    CheckpointWriter writer(options, {});
    for (const int64_t step : steps) {
      writer.start_save(step, small_model(0, 1, step), fixed_state(""));
      EXPECT_TRUE(writer.finish()->committed);
    }
    return list_checkpoints(folder.path());
  };
  using Steps = std::vector<int64_t>;
  const CheckpointWriter::Options milestones = {.folder = folder.path(), .keep = 2, .keep_every = 20};
  EXPECT_EQ(steps_after(milestones, {10, 20, 30}), (Steps{30, 20}));
  EXPECT_EQ(steps_after(milestones, {40}), (Steps{40, 30, 20}));  // a milestone counts among the newest
  EXPECT_EQ(steps_after(milestones, {50, 60, 70, 80, 90}), (Steps{90, 80, 60, 40, 20}));
  // A step that was saved because the run was asked to stop is no milestone.
  EXPECT_EQ(steps_after(milestones, {93, 100, 110}), (Steps{110, 100, 80, 60, 40, 20}));
  for (const int64_t step : list_checkpoints(folder.path())) {
    EXPECT_EQ(find_checkpoint({.folder = folder.path(), .step = step}, {})->manifest.step, step);
  }
  // Without the key, or with another value, the next save removes what is a milestone no more.
  EXPECT_EQ(steps_after({.folder = folder.path(), .keep = 2, .keep_every = 40}, {120}), (Steps{120, 110, 80, 40}));
  EXPECT_EQ(steps_after({.folder = folder.path(), .keep = 2}, {130}), (Steps{130, 120}));
}

TEST(Checkpoint, DamagedOnesAreNotCountedAsKept) {
  const TemporaryFolder folder;
  for (const int64_t step : {10, 20, 30}) save_small_model(folder.path(), 1, step, /*keep=*/5);
  for (const char* damaged : {"20", "30"}) {
    fs::remove(folder.path() + "/step-000000" + damaged + "/rank-00000.safetensors");
  }
  const auto found = find_checkpoint({.folder = folder.path()}, {});
  EXPECT_EQ(found->manifest.step, 10);
  EXPECT_EQ(found->rejected, (std::vector<int64_t>{30, 20}));
  ASSERT_EQ(found->notes.size(), 3);
  EXPECT_NE(found->notes[0].find("step-00000030/rank-00000.safetensors"), std::string::npos) << found->notes[0];
  EXPECT_NE(found->notes[2].find("20 steps are lost"), std::string::npos) << found->notes[2];

  // Training reaches step 20 again. The damaged checkpoints of steps 20 and 30 get other names, the good ones stay.
  CheckpointWriter writer({.folder = folder.path(), .keep = 2, .resumed_step = 10, .rejected = found->rejected}, {});
  writer.start_save(20, small_model(0, 1, 20), fixed_state(""));
  EXPECT_TRUE(writer.finish()->committed);
  std::vector<std::string> names = names_in(folder.path());
  for (std::string& name : names) name = name.substr(0, name.find("rejected-"));  // an id follows, another in each run
  EXPECT_EQ(names,
            (std::vector<std::string>{"latest", "step-00000010", "step-00000020", "step-00000020.", "step-00000030."}));
  EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.step, 20);
}

TEST(Checkpoint, RemovesWhatACrashHasLeft) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 1, 10);
  fs::create_directory(folder.path() + "/step-00000020.tmp-0123456789abcdef");
  std::ofstream(folder.path() + "/step-00000020.tmp-0123456789abcdef/rank-00000.safetensors") << "half";
  fs::create_symlink("step-00000020", folder.path() + "/latest.tmp-0123456789abcdef");
  EXPECT_EQ(find_checkpoint({.folder = folder.path()}, {})->manifest.step, 10);
  const CheckpointWriter writer({.folder = folder.path()}, {});
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"latest", "step-00000010"}));
}

TEST(Checkpoint, TheSnapshotIsOfTheMomentOfTheSave) {
  const TemporaryFolder folder;
  CheckpointWriter writer({.folder = folder.path()}, {});
  for (const int64_t step : {1, 2, 3}) {  // the buffers of the first one are reused
    const auto pieces = small_model(0, 1, step);
    writer.start_save(step, pieces, fixed_state(""));
    for (const TensorPiece& piece : pieces) piece.data.fill_(0);  // training continues
    writer.finish();
    const auto loaded = small_model(0, 1, step, /*filled=*/false);
    load_checkpoint(*find_checkpoint({.folder = folder.path()}, {}), loaded, {});
    EXPECT_EQ(difference_from(loaded, 0, 1, step), "");
  }
}

TEST(Checkpoint, AStepIsSavedOnce) {
  const TemporaryFolder folder;
  CheckpointWriter writer({.folder = folder.path(), .resumed_step = 4}, {});
  writer.start_save(4, small_model(0, 1, 4), fixed_state(""));
  EXPECT_FALSE(writer.in_flight());
  EXPECT_FALSE(writer.finish().has_value());
  writer.start_save(5, small_model(0, 1, 5), fixed_state(""));
  EXPECT_THROW(writer.start_save(6, small_model(0, 1, 6), fixed_state("")), Error);  // only one save may be in flight
  EXPECT_TRUE(writer.finish()->committed);
  writer.start_save(5, small_model(0, 1, 5), fixed_state(""));
  EXPECT_FALSE(writer.in_flight());
}

TEST(Checkpoint, RanksPollUntilTheSlowestHasWritten) {
  const TemporaryFolder folder;
  run_ranks(3, [&](const Ranks& ranks) {
    CheckpointWriter writer({.folder = folder.path()}, ranks);
    writer.start_save(7, small_model(ranks.rank, ranks.size, 7), fixed_state(""));
    std::optional<SaveOutcome> outcome;
    int polls = 0;
    for (; !outcome; ++polls) outcome = writer.try_finish();
    EXPECT_TRUE(outcome->committed) << outcome->message;
    EXPECT_GE(polls, 2);  // one for the files, one for the commit
    EXPECT_FALSE(writer.in_flight());
    EXPECT_FALSE(writer.try_finish().has_value());
  });
}

// 64 ranks that gathered their reports in each poll would exchange megabytes in every step of a large model.
TEST(Checkpoint, APollExchangesOneByteOfEachRankUntilAllHaveWritten) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Ranks ranks) {
    std::vector<size_t> sent;  // bytes of each text that this rank gives to a gather
    ranks.gather = [&sent, gather = ranks.gather](const std::string& text) {
      sent.push_back(text.size());
      return gather(text);
    };
    CheckpointWriter writer({.folder = folder.path()}, ranks);
    auto pieces = small_model(ranks.rank, ranks.size, 7);
    // 100 MB take at least 0.05 s to hash and write. Rank 0 has its report long before.
    if (ranks.rank == 1) pieces.push_back({"large/master", {25'000'000}, 0, at::zeros({25'000'000})});
    sent.clear();
    writer.start_save(7, pieces, fixed_state(""));
    EXPECT_TRUE(sent.empty());
    int polls = 0;
    std::optional<SaveOutcome> outcome;
    for (; !outcome; ++polls) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a step
      outcome = writer.try_finish();
    }
    EXPECT_TRUE(outcome->committed) << outcome->message;
    EXPECT_GT(polls, 3);
    EXPECT_EQ(sent.size(), polls + 2);  // one more for the reports, and one for the outcome of the commit
    EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](size_t bytes) { return bytes > 1; }), 1);  // the report
  });
}

TEST(Checkpoint, WhoWaitsForASlowRankGivesSignsOfLife) {
  const TemporaryFolder folder;
  run_ranks(2, [&](const Ranks& ranks) {
    CheckpointWriter writer({.folder = folder.path()}, ranks);
    auto pieces = small_model(ranks.rank, ranks.size, 7);
    // 200 MB take at least 0.15 s to hash and write.
    if (ranks.rank == 1) pieces.push_back({"large/master", {50'000'000}, 0, at::zeros({50'000'000})});
    writer.start_save(7, pieces, fixed_state(""));
    int signs = 0;
    EXPECT_TRUE(writer.finish([&] { ++signs; })->committed);
    EXPECT_GT(signs, 2);  // two signs come without any wait: for the files and for the commit
  });
}

TEST(Checkpoint, AnotherModelIsRefusedWithTheDifferences) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 2, 3);
  const auto found = find_checkpoint({.folder = folder.path()}, {});
  auto pieces = small_model(0, 1, 3, /*filled=*/false);
  pieces[0].shape = {14, 7};                        // another size of the vocabulary
  pieces[3].data = pieces[3].data.to(at::kDouble);  // another dtype
  pieces.pop_back();                                // another number of tensors
  pieces.push_back({"blocks.1.norm1.weight/master", {5}, 0, at::zeros({5})});
  try {
    load_checkpoint(*found, pieces, {});
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_EQ(std::string(error.what()),
              found->path +
                  " is of another model:\n"
                  "  count: I64 [2] in the checkpoint, not in the model\n"
                  "  embedding.weight/master: F32 [13, 7] in the checkpoint, F32 [14, 7] in the model\n"
                  "  norm.weight/master: F32 [5] in the checkpoint, F64 [5] in the model\n"
                  "  blocks.1.norm1.weight/master: not in the checkpoint, F32 [5] in the model");
  }
  for (const TensorPiece& piece : pieces) {
    if (piece.tensor == "embedding.weight/first_moment") {
      EXPECT_EQ(piece.data[0].item<float>(), -1) << "a part was loaded";
    }
  }
}

TEST(Checkpoint, SomeTensorsCanBeReadAlone) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 3, 3);
  const auto found = find_checkpoint({.folder = folder.path()}, {});
  const auto all = small_model(0, 1, 3);
  const TensorPiece middle = {all[0].tensor, all[0].shape, 20, at::zeros({50})};
  read_pieces(*found, {middle});
  EXPECT_TRUE(middle.data.equal(all[0].data.narrow(0, 20, 50)));
  EXPECT_THROW(read_pieces(*found, {{"absent", {1}, 0, at::zeros({1})}}), Error);
}

}  // namespace
}  // namespace strata::trainer
