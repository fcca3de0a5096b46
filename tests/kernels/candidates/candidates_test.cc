// SPDX-License-Identifier: MIT
// Libraries of others: right kernels are proved, wrong ones are refused, and so are files that are no such library.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/declarations.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/level_proof.h"
#include "kernels/load_candidates.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "tests/kernels/candidates/libcandidates.so";
constexpr const char* kOther = "tests/kernels/candidates/libother.so";
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Writes a file of the test's own, because the files beside a test are links.
fs::path written(const std::string& name, const std::string& content) {
  const fs::path path = fs::path(testing::TempDir()) / name;
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << content;
  fs::permissions(path, fs::perms(0644));
  return path;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  size_t count = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()), ++count) {
    text.replace(at, from.size(), to);
  }
  EXPECT_GT(count, 0u) << "no " << from;
  return text;
}

std::string refusal_of(const fs::path& path) {
  try {
    load_candidates(path);
  } catch (const c10::ValueError& error) {
    const std::string sentence = error.what_without_backtrace();
    EXPECT_TRUE(sentence.starts_with(path.string())) << sentence;
    return sentence.substr(std::min(path.string().size(), sentence.size()));
  }
  return "not refused";
}

class Candidates : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto ops = load_candidates(written("candidates.so", text_of(kLibrary)));
    EXPECT_EQ(ops, (std::vector<std::string_view>{"rms_norm", "add_rms_norm"}));
  }
  void TearDown() override { unsetenv("STRATA_TEST_MISTAKE"); }
};

TEST_F(Candidates, ThatAreRightAreProved) {
  for (const std::string_view op : {"rms_norm", "add_rms_norm"}) {
    for (const at::ScalarType dtype : kTypes) {
      SCOPED_TRACE(std::string(op) + " " + toString(dtype));
      const LevelProof proof = prove_level(op, kLibraryLevel, c10::kCPU, dtype);
      EXPECT_TRUE(proof.proved()) << proof.refusal;
      EXPECT_EQ(proof.failures, std::vector<std::string>());
      EXPECT_EQ(proof.refused, 0);
      EXPECT_GE(proof.cases, 10);
      EXPECT_GT(proof.calls, 10 * proof.cases);
      EXPECT_GT(proof.share, 0.0);
      EXPECT_LE(proof.share, 1.0);
    }
  }
}

struct Mistake {
  const char *name, *op, *where, *what;  // what a failure has in its text
};

class WrongCandidates : public Candidates, public testing::WithParamInterface<Mistake> {};

TEST_P(WrongCandidates, AreRefusedInEachType) {
  const Mistake& mistake = GetParam();
  setenv("STRATA_TEST_MISTAKE", mistake.name, 1);
  for (const at::ScalarType dtype : kTypes) {
    if (dtype == at::kFloat && mistake.name == std::string_view("returns fp32")) continue;  // that is right
    SCOPED_TRACE(std::string(mistake.name) + " " + toString(dtype));
    const LevelProof proof = prove_level(mistake.op, kLibraryLevel, c10::kCPU, dtype, /*most_failures=*/1000);
    EXPECT_FALSE(proof.proved());
    EXPECT_GT(proof.failed, 0);
    bool is_named = false;
    for (const std::string& failure : proof.failures) {
      EXPECT_TRUE(failure.starts_with(mistake.op)) << failure;
      const size_t colon = failure.find(": ");
      is_named |= failure.substr(0, colon).find(mistake.where) != std::string::npos &&
                  failure.find(mistake.what, colon) != std::string::npos;
    }
    EXPECT_TRUE(is_named) << proof.failures.size() << " failures, the first: " << proof.failures.at(0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, WrongCandidates,
    testing::Values(
        Mistake{"scales by 1.02", "rms_norm", "2x3x8, contiguous inputs",
                "output 0: product of error and result in rows"},
        Mistake{"drops the last row", "rms_norm", "new tensors that hold NaN", "output 0: "},
        Mistake{"ignores strides", "rms_norm", "strided inputs", "output 0: "},
        Mistake{"returns the input", "rms_norm", "5x33, contiguous inputs", "output 0: "},
        Mistake{"keeps the norm in 16 bits", "rms_norm", "contiguous inputs", "output 0: "},
        Mistake{"returns fp32", "rms_norm", "contiguous inputs", "output 0 is Float, expected "},
        Mistake{"loses NaN", "rms_norm", "NaN in leaf 0", "numbers are not what the formula's are"},
        Mistake{"changes its bits", "rms_norm", "called again", "has other bits than before"},
        Mistake{"changes its input", "rms_norm", "its inputs", "leaf 0 was changed"},
        Mistake{"returns the input", "rms_norm", "its inputs", "memory of output 0 is the memory of leaf 0"},
        Mistake{"changes the gradient of its result", "rms_norm", "its inputs", "gradient of output 0 was changed"},
        Mistake{"is wrong without gradients", "rms_norm", "2x3x8, without gradients", "output 0: "},
        Mistake{"reads behind rows", "rms_norm", "strided inputs", "output 0: "},
        Mistake{"keeps results of an address", "rms_norm", "2x3x8, other values in the same memory", "output 0: "},
        Mistake{"keeps gradients of a size", "rms_norm", "other values in the same memory", "gradient of leaf 1: "},
        Mistake{"writes behind the destination", "rms_norm", "weight gradients written into BFloat16",
                "gradient of leaf 1 was written beside its destination"},
        Mistake{"forgets a row of the weight's gradient", "rms_norm", "only the gradient of leaf 1",
                "gradient of leaf 1: "},
        Mistake{"overwrites a sum of gradients", "rms_norm", "weight gradients added to Float", "gradient of leaf 1: "},
        Mistake{"forgets the gradient of the sum", "add_rms_norm", "contiguous inputs", "gradient of leaf 0: "}));

TEST_F(Candidates, MayRefuseSomeCallsButNotAll) {
  setenv("STRATA_TEST_MISTAKE", "refuses odd widths", 1);
  LevelProof proof = prove_level("rms_norm", kLibraryLevel, c10::kCPU, at::kFloat);
  EXPECT_TRUE(proof.proved());
  EXPECT_GT(proof.refused, 0);
  EXPECT_LT(proof.refused, proof.calls);
  EXPECT_TRUE(proof.refusal.starts_with("rms_norm/library: D is ")) << proof.refusal;
  setenv("STRATA_TEST_MISTAKE", "refuses all", 1);
  proof = prove_level("rms_norm", kLibraryLevel, c10::kCPU, at::kFloat);
  EXPECT_FALSE(proof.proved());
  EXPECT_EQ(proof.refused, proof.calls);
  setenv("STRATA_TEST_MISTAKE", "refuses the backward", 1);
  proof = prove_level("rms_norm", kLibraryLevel, c10::kCPU, at::kFloat);
  EXPECT_FALSE(proof.proved());
  EXPECT_EQ(proof.failed, 0);
  EXPECT_LT(proof.refused, proof.calls);
}

// Types of results and bits of repeated calls are checked at a level of the tree too. The other checks beyond the ways
// of levels_agree_test allow what a level of the tree does.
TEST(LevelProof, AcceptsLevelAten) {
  for (const std::string_view op : {"activation", "layer_norm", "rotary", "dropout", "cross_entropy", "adamw"}) {
    SCOPED_TRACE(op);
    const LevelProof proof = prove_level(op, Level::aten, c10::kCPU, at::kBFloat16);
    EXPECT_TRUE(proof.proved());
    EXPECT_EQ(proof.failures, std::vector<std::string>());
  }
}

TEST(LoadCandidates, RefusesOtherFiles) {
  const std::string library = text_of(kLibrary);
  EXPECT_NE(refusal_of("nowhere.so").find("it cannot be opened (No such file"), std::string::npos);
  EXPECT_NE(refusal_of(written("text.so", "int main() {}\n")).find(" is no shared library"), std::string::npos);
  EXPECT_NE(refusal_of(written("empty.so", "")).find(" is no shared library"), std::string::npos);
  EXPECT_NE(refusal_of(written("cut.so", library.substr(0, library.size() / 2))).find(" is truncated"),
            std::string::npos);
  EXPECT_NE(refusal_of(written("other.so", text_of(kOther))).find(" has no function strata_candidates"),
            std::string::npos);
  const fs::path shared = written("shared.so", library);
  fs::permissions(shared, fs::perms(0666));
  EXPECT_NE(refusal_of(shared).find("other users can write it, expected chmod go-w"), std::string::npos);
  const fs::path link = fs::path(testing::TempDir()) / "link.so";
  fs::remove(link);
  fs::create_symlink(written("linked.so", library), link);
  EXPECT_NE(refusal_of(link).find("it is a symbolic link"), std::string::npos);
}

TEST(LoadCandidates, RefusesOtherStamps) {
  const std::string library = text_of(kLibrary);
  const std::string torch = TORCH_VERSION, other_torch = "0" + torch.substr(1);
  EXPECT_NE(refusal_of(written("torch.so", replaced(library, torch, other_torch)))
                .find(" was compiled with LibTorch " + other_torch + ", and this program with " + torch),
            std::string::npos);
  const std::string other(std::string_view(kDeclarations).size(), '0');
  EXPECT_NE(refusal_of(written("declarations.so", replaced(library, kDeclarations, other)))
                .find(" was compiled with declarations of ops of hash " + other + ", and this program with "),
            std::string::npos);
  EXPECT_NE(refusal_of(written("op.so", replaced(library, "add_rms_norm", "add_rms_nerm")))
                .find("rms_nerm, and there is no such op"),
            std::string::npos);
}

TEST_F(Candidates, HaveOneKernelForEachOp) {
  setenv("STRATA_TEST_MISTAKE", "names an op twice", 1);
  EXPECT_EQ(refusal_of(written("twice.so", text_of(kLibrary))), " has two kernels of op rms_norm");
}

TEST(LibraryLevel, IsEmptyWithoutALibrary) {
  EXPECT_EQ(name(kLibraryLevel), "library");
  for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
    EXPECT_EQ(LayerNormOp::kKernels.why_absent(kLibraryLevel, device), kNoLibrary);
  }
  const Tensor x = at::ones({2, 8}), weight = at::ones({8});
  EXPECT_THROW(layer_norm(x, weight, weight, 1e-5, kLibraryLevel), c10::Error);
}

}  // namespace
}  // namespace strata::kernels
