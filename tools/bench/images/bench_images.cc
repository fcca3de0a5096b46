// SPDX-License-Identifier: MIT
// bench_images: measures how many JPEG files per second become augmented tensors, compared with decoding by
// libjpeg-turbo alone.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/files/temporary_folder.h"
#include "base/quantile.h"
#include "base/run_program.h"
#include "tools/bench/images/jpeg_pictures.h"
#include "tools/programs.h"
#include "trainer/data/images/encoded_images.h"
#include "trainer/data/images/image_folder.h"

namespace strata {
namespace {

struct Request {
  int64_t width = 500, height = 375, images = 128, size = 224, threads = 1, rounds = 9;
  std::string json;
};

// A temporary folder of JPEG pictures, which the destructor removes.
class Pictures {
 public:
  explicit Pictures(const Request& request) {
    const std::filesystem::path folder = std::filesystem::path(folder_.path()) / "class";
    std::filesystem::create_directories(folder);
    for (int64_t i = 0; i < request.images; ++i) {
      files_.push_back(tools::jpeg_picture(request.width, request.height, static_cast<uint64_t>(i)));
      const std::string path = folder / (std::to_string(i) + ".jpg");
      std::ofstream file(path, std::ios::binary);
      if (!(file << files_.back()).flush()) throw Error(ExitCode::storage, path + ": cannot be written");
    }
  }

  const std::string& folder() const { return folder_.path(); }
  const std::vector<std::string>& files() const { return files_; }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> files_;
};

struct Seconds {
  double passed = 0, computed = 0;  // computed: CPU time of all threads, which other programs affect less
};

template <class Work>
Seconds seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t computed = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - computed) / CLOCKS_PER_SEC};
}

void decode_all(const std::vector<std::string>& files, int64_t threads) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (int64_t i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      std::vector<uint8_t> pixels;
      for (size_t file = next++; file < files.size(); file = next++) tools::decode_with_libjpeg(files[file], pixels);
    });
  }
}

void run(const Request& request) {
  const Pictures pictures(request);
  const trainer::EncodedImages images(std::make_unique<trainer::ImageFolder>(pictures.folder(), /*classes=*/1),
                                      {.size = request.size, .flip = true, .threads = request.threads});
  // The two are measured in turn, so that other load on the machine slows both down.
  std::vector<double> decoded, augmented, shares, computed_shares;
  for (int64_t round = 0; round <= request.rounds; ++round) {
    const Seconds alone = seconds([&] { decode_all(pictures.files(), request.threads); });
    const Seconds ours = seconds([&] { images.training_batch(/*seed=*/1, round * request.images, request.images); });
    if (round == 0) continue;  // the first round warms up files, pages and code
    decoded.push_back(static_cast<double>(request.images) / alone.passed);
    augmented.push_back(static_cast<double>(request.images) / ours.passed);
    shares.push_back(alone.passed / ours.passed);
    computed_shares.push_back(alone.computed / ours.computed);
  }
  const nlohmann::ordered_json json = {{"width", request.width},
                                       {"height", request.height},
                                       {"bytes_per_image", pictures.files()[0].size()},
                                       {"size", request.size},
                                       {"threads", request.threads},
                                       {"images", request.images},
                                       {"rounds", request.rounds},
                                       {"libjpeg_images_per_second", median(decoded)},
                                       {"augmented_images_per_second", median(augmented)},
                                       {"share_of_libjpeg", median(shares)},
                                       {"share_of_libjpeg_by_cpu_time", median(computed_shares)}};
  for (const auto& [key, value] : json.items()) std::printf("%-28s %s\n", key.c_str(), value.dump().c_str());
  append_result(request.json, json.dump() + "\n");
}

}  // namespace
}  // namespace strata

int strata::programs::bench_images_main(int count, char** arguments) {
  using namespace strata;
  Request request;
  CLI::App app("JPEG files to augmented tensors, beside libjpeg-turbo's decoding of the same files.", "bench images");
  app.add_option("--width", request.width, "of the files")->capture_default_str()->check(CLI::Range(8, 10000));
  app.add_option("--height", request.height, "of the files")->capture_default_str()->check(CLI::Range(8, 10000));
  app.add_option("--images", request.images, "how many")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--size", request.size, "of the tensors")->capture_default_str()->check(CLI::Range(8, 4096));
  app.add_option("--threads", request.threads, "that read and decode")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", request.rounds, "that count")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--json", request.json, "file to which the result is appended as a line of JSON");
  return run_program(app, count, arguments, [&] { run(request); });
}
