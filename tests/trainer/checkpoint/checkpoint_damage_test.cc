// SPDX-License-Identifier: MIT
// Checks damage of checkpoints: whichever bytes change, the damaged file is reported and the checkpoint before is used.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

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

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), bytes.size());
}

// Corrects the hash line, so that the other checks find the damage and not the hash.
std::string with_hash(std::string manifest) {
  const size_t body = manifest.rfind(",\n\"sha256\": \"");
  manifest.resize(body);
  return manifest + ",\n\"sha256\": \"" + sha256(manifest) + "\"\n}\n";
}

// Saves other numbers as a checkpoint of the same step, with the same names, sizes and state.
void save_another_run(const std::string& folder, int64_t step) {
  run_ranks(2, [&](const Ranks& ranks) {
    CheckpointWriter writer({.folder = folder}, ranks);
    writer.start_save(step, small_model(ranks.rank, ranks.size, step + 7), fixed_state(small_state(step)));
    EXPECT_TRUE(writer.finish()->committed);
  });
}

// Two good checkpoints of two ranks, at steps 10 and 20. Each test damages the newer one.
class CheckpointDamage : public testing::Test {
 protected:
  CheckpointDamage() {
    for (const int64_t step : {10, 20}) save_small_model(folder_.path(), 2, step, /*keep=*/5);
  }

  std::string path(const std::string& name, int64_t step = 20) const {
    return folder_.path() + "/" + checkpoint_folder_name(step) + "/" + name;
  }

  // The older one is used, and the note about the newer one contains `named` and `why`.
  void expect_rejected(const std::string& named, const std::string& why = "") const {
    const auto found = find_checkpoint({.folder = folder_.path()}, {});
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->manifest.step, 10) << "the damage was not noticed: " << named << " " << why;
    ASSERT_EQ(found->notes.size(), 2);
    EXPECT_NE(found->notes[0].find(named), std::string::npos) << found->notes[0];
    EXPECT_NE(found->notes[0].find(why), std::string::npos) << found->notes[0];
  }

  void expect_manifest_rejected(const std::string& text, const std::string& why) const {
    const std::string name = path("manifest.json"), good = read_file(name);
    write(name, text);
    expect_rejected("step-00000020/manifest.json", why);
    write(name, good);
  }

  std::string manifest_with(const std::string& from, const std::string& to) const {
    std::string text = read_file(path("manifest.json"));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return with_hash(text.replace(at, from.size(), to));
  }

  const TemporaryFolder folder_;
};

const std::vector<std::string> kFiles = {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"};

TEST_F(CheckpointDamage, TruncatedOrExtended) {
  for (const std::string& name : kFiles) {
    const std::string good = read_file(path(name));
    const size_t header = 8 + static_cast<unsigned char>(good[0]) + 256 * static_cast<unsigned char>(good[1]);
    std::vector<size_t> sizes = {0, 1, 7, 8, good.size() / 2, good.size() - 1, good.size() + 1};
    if (name != "manifest.json") sizes.insert(sizes.end(), {header - 1, header});
    for (const size_t size : sizes) {
      fs::resize_file(path(name), size);
      expect_rejected(name);
      write(path(name), good);
    }
  }
  EXPECT_EQ(find_checkpoint({.folder = folder_.path()}, {})->manifest.step, 20);
}

TEST_F(CheckpointDamage, EveryFlippedBitIsNoticed) {
  const bool all = std::getenv("STRATA_TEST_ALL") != nullptr;
  const int trials = all ? 10000 : 500;
  std::vector<std::string> contents;
  size_t total = 0;
  for (const std::string& name : kFiles) total += contents.emplace_back(read_file(path(name))).size();
  std::mt19937_64 random(1);
  for (int trial = 0; trial < trials; ++trial) {
    size_t bit = random() % (8 * total), file = 0;
    while (bit >= 8 * contents[file].size()) bit -= 8 * contents[file++].size();
    std::string flipped = contents[file];
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    write(path(kFiles[file]), flipped);
    expect_rejected(kFiles[file]);
    write(path(kFiles[file]), contents[file]);
    ASSERT_FALSE(HasFailure()) << "bit " << bit << " of " << kFiles[file];
  }
}

TEST_F(CheckpointDamage, ShardsInTheWrongPlace) {
  const std::string first = path(kFiles[1]), second = path(kFiles[2]), kept = folder_.path() + "/kept";
  fs::rename(first, kept);
  fs::rename(second, first);
  fs::rename(kept, second);
  expect_rejected("rank-0000");  // swapped files differ in size or in hash
  fs::rename(first, kept);
  fs::rename(second, first);
  fs::rename(kept, second);

  const std::string good = read_file(first);
  const TemporaryFolder other;
  save_another_run(other.path(), 20);
  const std::string of_another_run = read_file(other.path() + "/" + checkpoint_folder_name(20) + "/" + kFiles[1]);
  ASSERT_EQ(of_another_run.size(), good.size());
  write(first, of_another_run);
  expect_rejected(kFiles[1], "SHA-256");
  write(first, read_file(path(kFiles[1], 10)));
  expect_rejected(kFiles[1], "SHA-256");  // the file of another step, of the same size
  fs::remove(first);
  expect_rejected(kFiles[1], "No such file");
  fs::create_symlink(path(kFiles[1], 10), first);
  expect_rejected(kFiles[1], "symbolic link");
  fs::remove(first);
  fs::create_directory(first);
  expect_rejected(kFiles[1], "regular file");
  fs::remove(first);
  write(first, good);
  EXPECT_EQ(find_checkpoint({.folder = folder_.path()}, {})->manifest.step, 20);
}

// Servers of files and people leave such files in a folder, and nothing of a checkpoint is in them.
TEST_F(CheckpointDamage, FilesThatAreNotInTheManifestAreIgnored) {
  write(path(".DS_Store"), "");
  write(path("rank-00002.safetensors"), "of another run");
  fs::create_directory(path("notes"));
  const auto found = find_checkpoint({.folder = folder_.path()}, {});
  EXPECT_EQ(found->manifest.step, 20);
  EXPECT_TRUE(found->rejected.empty());
  ASSERT_EQ(found->notes.size(), 1);
  EXPECT_NE(found->notes[0].find("step-00000020/.DS_Store: is not in the manifest and is ignored, as are 2 more"),
            std::string::npos)
      << found->notes[0];
}

// The manifest is whole, so it is not damaged: using an older checkpoint would lose steps.
TEST_F(CheckpointDamage, TheFormatOfAnotherVersionIsAnErrorAndNoDamage) {
  write(path("manifest.json"), manifest_with("checkpoint 1", "checkpoint 2"));
  try {
    find_checkpoint({.folder = folder_.path()}, {});
    ADD_FAILURE() << "used an older one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    for (const char* part : {"step 20 could not be read", "'strata checkpoint 2'", "'strata checkpoint 1'", "move "}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST_F(CheckpointDamage, FoldersInTheWrongPlace) {
  fs::rename(folder_.path() + "/step-00000020", folder_.path() + "/step-00000030");
  auto found = find_checkpoint({.folder = folder_.path()}, {});
  EXPECT_EQ(found->manifest.step, 10);
  EXPECT_NE(found->notes[0].find("is of step 20"), std::string::npos) << found->notes[0];
  fs::rename(folder_.path() + "/step-00000030", folder_.path() + "/elsewhere");
  fs::create_directory_symlink("elsewhere", folder_.path() + "/step-00000020");
  expect_rejected("step-00000020", "expected a folder");
}

TEST_F(CheckpointDamage, NoneIsLeftIsAnErrorAndNotAFreshStart) {
  fs::remove(path(kFiles[1]));
  fs::remove(path(kFiles[0], 10));
  try {
    find_checkpoint({.folder = folder_.path()}, {});
    ADD_FAILURE() << "started from nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    for (const char* part : {"step 20 rejected", "step 10 rejected", "manifest.json", "No such file"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST_F(CheckpointDamage, Manifest) {
  const std::string good = read_file(path("manifest.json"));
  expect_manifest_rejected("", "too early");
  expect_manifest_rejected("{}", "too early");
  expect_manifest_rejected(good.substr(0, good.size() - 1), "hash");
  expect_manifest_rejected(good + " ", "hash");
  expect_manifest_rejected(std::string(64'000'001, ' '), "at most");
  expect_manifest_rejected(with_hash("[1,\n\"sha256\": \""), "JSON");
  expect_manifest_rejected(with_hash(std::string(100'000, '[') + ",\n\"sha256\": \""), "deep");
  expect_manifest_rejected(manifest_with("\"step\": 20", "\"step\": 20,\n\"step\": 20"), "'step' stands twice");
  expect_manifest_rejected(manifest_with("\"step\": 20", "\"step\": 20,\n\"more\": 20"), "7 members");
  expect_manifest_rejected(manifest_with("\"step\": 20,\n", ""), "members");
  expect_manifest_rejected(manifest_with("\"step\": 20", "\"stop\": 20"), "'step' is missing");
  for (const char* number :
       {"-1", "1.5", "20.0", "18446744073709551615", "18446744073709551616", "1e3", "null", "\"20\""}) {
    expect_manifest_rejected(manifest_with("\"step\": 20", "\"step\": " + std::string(number)), "whole number");
  }
  for (const char* name : {"../rank-00000.safetensors", "/etc/passwd", "rank-00001.safetensors", "rank-0.safetensors",
                           "rank-00000.safetensors\\u001b[2J", ""}) {
    expect_manifest_rejected(manifest_with("rank-00000.safetensors", name), "expected 'rank-00000.safetensors'");
  }
  expect_manifest_rejected(manifest_with("\"F32\"", "\"F33\""), "unknown dtype F33");
  expect_manifest_rejected(manifest_with("[13,7]", "[13,8]"), "the tensor 104");
  expect_manifest_rejected(manifest_with("[13,7]", "[13,-7]"), "whole number");
  expect_manifest_rejected(manifest_with("[13,7]", "[9223372036854775807,7]"), "overflows");
  expect_manifest_rejected(manifest_with("[[0,0,45],[1,45,46]]", "[[0,0,45],[2,45,46]]"), "file 2 of 2");
  expect_manifest_rejected(manifest_with("[[0,0,45],[1,45,46]]", "[[0,0,45],[1,44,46]]"), "begins at element 44");
  expect_manifest_rejected(manifest_with("[[0,0,45],[1,45,46]]", "[[0,0,45],[1,46,45]]"), "begins at element 46");
  expect_manifest_rejected(manifest_with("[[0,0,45],[1,45,46]]", "[[0,0,45,1],[1,45,46]]"), "[file, offset, count]");
  expect_manifest_rejected(
      manifest_with("[[0,0,45],[1,45,46]]", "[[0,0,9223372036854775807],[1,9223372036854775807,9]]"), "above 2^63");
  EXPECT_EQ(find_checkpoint({.folder = folder_.path()}, {})->manifest.step, 20);
}

}  // namespace
}  // namespace strata::trainer
