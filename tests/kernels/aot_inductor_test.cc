// SPDX-License-Identifier: MIT
// Packages of level aot_inductor that are missing, stale, damaged, of another machine, or called with wrong tensors.
// Each gives one sentence with the command that makes the package, and nothing is loaded.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "kernels/runtime/aot_inductor_package.h"
#include "kernels/runtime/aot_inductor_runtime.h"

namespace strata::kernels {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

constexpr const char* kRemedy = "; make it with: tools/strata packages CONFIG";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Returns `text` with `from` replaced by `to` once.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

// A copy of the packages that the build made, and the text of rms_norm.py from which they were made.
class Packages : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path built = "kernels/cpu_packages";
    folder_ = fs::path(std::getenv("TEST_TMPDIR")) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    for (const auto& entry : fs::directory_iterator(built)) {
      fs::copy_file(entry.path(), folder_ / entry.path().filename());
      (entry.path().extension() == ".so" ? library_ : text_) = folder_ / entry.path().filename();
    }
    fs::permissions(library_, fs::perms::owner_all);
    fs::permissions(text_, fs::perms::owner_all);
    formula_ = read("kernels/rms_norm/rms_norm.py");
    request_ = {"rms_norm", "rms_norm_forward", formula_, at::kFloat, "d=*", "x86-64-v3"};
  }

  // Returns the error message of a fresh search for the function.
  std::string outcome(const PackageRequest& request) const {
    return refusal([&] {
      PackageCatalog catalog({folder_});
      catalog.load(catalog.find(request), request);
    });
  }
  std::string key() const { return request_.key().substr(0, 12); }

  fs::path folder_, library_, text_;
  std::string formula_;
  PackageRequest request_;
};

TEST_F(Packages, AreFound) { EXPECT_EQ(outcome(request_), "nothing was refused"); }

TEST_F(Packages, Missing) {
  fs::remove(text_);
  EXPECT_EQ(outcome(request_),
            "rms_norm/aot_inductor: there is no package of rms_norm_forward for float32, widths d=*, x86-64-v3 (key " +
                key() + ") in " + folder_.string() + kRemedy);
}

TEST_F(Packages, OfAnotherFormula) {
  const std::string changed = formula_ + "# more\n";
  request_.formula = changed;
  const std::string sentence = outcome(request_);
  EXPECT_EQ(
      sentence.find("rms_norm/aot_inductor: the package of rms_norm_forward for float32, widths d=*, x86-64-v3 in " +
                    library_.string() +
                    " is stale: it was made from other files of kernels/ or tools/aot_inductor/ or with another torch"),
      0u)
      << sentence;
  EXPECT_NE(sentence.find("expected " + key() + ")" + kRemedy), std::string::npos) << sentence;
}

TEST_F(Packages, OfAnotherArchitecture) {
  request_.architecture = "sm_80";
  const std::string sentence = outcome(request_);
  EXPECT_EQ(
      sentence.find("rms_norm/aot_inductor: there is no package of rms_norm_forward for float32, widths d=*, sm_80"),
      0u)
      << sentence;
  EXPECT_NE(sentence.find("of this function there are: float32, d=*, x86-64-v3"), std::string::npos) << sentence;
}

TEST_F(Packages, WithATextThatSaysAnotherArchitecture) {
  std::string text = read(text_);
  for (size_t at = 0; (at = text.find("\tx86-64-v3\t", at)) != std::string::npos;) text.replace(at, 11, "\tsm_90\t");
  write(text_, text);
  request_.architecture = "sm_90";
  EXPECT_NE(outcome(request_).find(" is stale: "), std::string::npos) << outcome(request_);
}

TEST_F(Packages, OfAnotherDtypeOrWidth) {
  request_.dtype = at::kDouble;
  EXPECT_NE(outcome(request_).find("for float64, widths d=*, x86-64-v3 (key "), std::string::npos);
  request_.dtype = at::kFloat;
  request_.widths = "d=4096";
  EXPECT_NE(outcome(request_).find("for float32, widths d=4096, x86-64-v3 (key "), std::string::npos);
}

TEST_F(Packages, Truncated) {
  const auto size = fs::file_size(library_);
  fs::resize_file(library_, size / 2);
  EXPECT_EQ(outcome(request_),
            "rms_norm/aot_inductor: the package of rms_norm_forward for float32, widths d=*, x86-64-v3 in " +
                library_.string() + " has " + std::to_string(size / 2) + " bytes, expected " + std::to_string(size) +
                kRemedy);
}

TEST_F(Packages, WithOneWrongByte) {
  std::string content = read(library_);
  content[content.size() / 2] ^= 1;
  write(library_, content);
  EXPECT_NE(outcome(request_).find(" is damaged: its SHA-1 is not that of its text; make it with"), std::string::npos);
}

TEST_F(Packages, WithoutItsLibrary) {
  fs::remove(library_);
  EXPECT_NE(outcome(request_).find(" cannot be loaded: it cannot be opened (No such file or directory); make it with"),
            std::string::npos)
      << outcome(request_);
}

// Code is loaded only from files that nobody else can change.
TEST_F(Packages, ThatOthersCanWrite) {
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(library_, fs::perms::owner_all | others);
    EXPECT_NE(outcome(request_).find(library_.string() + " cannot be loaded: other users can write it"),
              std::string::npos)
        << outcome(request_);
    fs::permissions(library_, fs::perms::owner_all);
    fs::permissions(text_, fs::perms::owner_all | others);
    EXPECT_NE(outcome(request_).find(text_.string() + " cannot be read: other users can write it"), std::string::npos)
        << outcome(request_);
    fs::permissions(text_, fs::perms::owner_all);
  }
  EXPECT_EQ(outcome(request_), "nothing was refused");
}

TEST_F(Packages, OfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "not run: only root can give files away";
  for (const fs::path& file : {library_, text_}) {
    ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
    EXPECT_NE(outcome(request_).find("it belongs to user 12345, expected user 0, root or the owner of the program"),
              std::string::npos)
        << outcome(request_);
    ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  }
}

TEST_F(Packages, ThatAreNoFiles) {
  const fs::path moved = folder_ / "moved";
  fs::rename(library_, moved);
  fs::create_symlink(moved, library_);
  EXPECT_NE(outcome(request_).find(" cannot be loaded: it is a symbolic link, expected a file"), std::string::npos)
      << outcome(request_);
  fs::remove(text_);
  ASSERT_EQ(mkfifo(text_.c_str(), 0600), 0);
  EXPECT_NE(outcome(request_).find(text_.string() + " cannot be read: it is no regular file"), std::string::npos)
      << outcome(request_);
}

TEST_F(Packages, WithALibraryInAnotherFolder) {
  const std::string text = read(text_), name = library_.filename().string();
  for (const std::string& other :
       {"../" + folder_.filename().string() + "/" + name, library_.string(), std::string()}) {
    write(text_, with(text, "library " + name, "library " + other));
    EXPECT_NE(outcome(request_).find(" cannot be read: expected the name of a library in the same folder, got '"),
              std::string::npos)
        << outcome(request_);
  }
}

// Without a home there is no cache. A path that is relative to the working directory would be anybody's.
TEST(PackageCatalog, IsNotInTheWorkingDirectory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PackageRequest request{"rms_norm", "rms_norm_forward", "", at::kDouble, "d=*", "x86-64-v3"};
  const auto search = [&] {
    unsetenv("STRATA_PACKAGES");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    const std::string sentence = refusal([&] { PackageCatalog::instance().find(request); });
    const bool searched = sentence.find("there is no package") != std::string::npos;
    std::_Exit(searched && sentence.find("strata/packages") == std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(search(), testing::ExitedWithCode(0), "");
}

TEST_F(Packages, WithATextThatCannotBeRead) {
  const std::string text = read(text_);
  for (const std::string& wrong :
       {std::string(), std::string("strata package 2\n"), text.substr(0, 40), with(text, "\tfloat32\t", "\t"),
        with(text, "x[n,d]", "x[n,d"), with(text, "\tfloat32\t", "\tfloat33\t")}) {
    write(text_, wrong);
    EXPECT_NE(outcome(request_).find(text_.string() + " cannot be read: expected"), std::string::npos)
        << outcome(request_);
  }
}

TEST(AotFunction, RefusesTensorsThatItWasNotMadeFor) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "not run: packages for CPUs need AVX2";
  const std::string formula = read("kernels/rms_norm/rms_norm.py");
  const AotFunction function("rms_norm", formula, "rms_norm_forward");
  const Tensor x = at::ones({3, 8}), weight = at::ones({8}), eps = host_number(1e-5);
  const auto call = [&](const Tensor& x, const Tensor& weight, const Tensor& eps) {
    return refusal([&] { function(at::kFloat, {{'d', 8}}, {x, weight, eps}); });
  };
  const std::string start = "rms_norm/aot_inductor: rms_norm_forward for float32, widths d=*, x86-64-v3, argument ";
  EXPECT_EQ(call(x, weight, eps), "nothing was refused");
  EXPECT_EQ(call(x.to(at::kDouble), weight, eps), start + "0 is Double, expected Float");
  EXPECT_EQ(call(x, at::ones({7}), eps), start + "1 is [7], expected 8 in dimension 0");
  EXPECT_EQ(call(at::ones({3, 7}), at::ones({7}), eps), start + "0 is [3, 7], expected 8 in dimension 1");
  EXPECT_EQ(call(x, at::ones({1, 8}), eps), start + "1 is [1, 8], expected 1 dimensions");
  EXPECT_EQ(call(x, weight, at::ones({1})), start + "2 is [1], expected 0 dimensions");
}

// The first thread searches, reads and loads the package.
TEST(AotFunction, IsLoadedAndCalledByManyThreads) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "not run: packages for CPUs need AVX2";
  const std::string formula = read("kernels/rms_norm/rms_norm.py");
  const AotFunction function("rms_norm", formula, "rms_norm_forward");
  const Tensor x = at::ones({64, 40}), weight = at::ones({40});
  std::vector<std::thread> threads;
  std::vector<double> sums(8);
  for (size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < 20; ++call) {
        sums[i] = function(at::kFloat, {{'d', 40}}, {x, weight, host_number(0.0)})[0].sum().item<double>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, 64 * 40);
}

}  // namespace
}  // namespace strata::kernels
