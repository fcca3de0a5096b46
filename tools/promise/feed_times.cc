// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "base/digest.h"
#include "base/steady_seconds.h"
#include "base/text/hex_digits.h"
#include "base/text/printable.h"
#include "modules/config/image_sizes.h"
#include "modules/config/model_config.h"
#include "tools/promise/measurements.h"
#include "tools/random_data.h"
#include "trainer/config/data_config.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/ledger/data_hash.h"
#include "trainer/tasks/step_batches.h"
#include "trainer/tasks/task.h"

namespace strata::tools {
namespace {

using nlohmann::ordered_json;

constexpr double kSeconds = 1;  // seconds of one measurement, unless the fewest steps take longer
constexpr int64_t kWarmUps = 2, kFewest = 3, kMost = 100, kMostMicroBatches = 8;

std::optional<modules::ImageSizes> image_sizes(const modules::ModelConfig& model) {
  const auto sizes = []<class Model>(const Model& model) -> std::optional<modules::ImageSizes> {
    if constexpr (modules::TakesImages<Model>) return model.image_sizes();
    return std::nullopt;
  };
  return std::visit(sizes, model.type);
}

// Null: images in memory have no such key.
ordered_json threads_of_readers(const trainer::DataConfig& data) {
  const auto threads = []<class Data>(const Data& data) -> ordered_json {
    if constexpr (std::is_base_of_v<trainer::EncodedImagesConfig, Data>) return data.threads;
    return nullptr;
  };
  return std::visit(threads, data.type);
}

// Returns the first problem of all ranks, or an empty text if they have none. Collective.
std::string problem_of_ranks(const sharding::RankSession& session, const std::string& own) {
  for (const std::string& rank_text : session.gather(own)) {
    if (!rank_text.empty()) return rank_text;
  }
  return "";
}

// Calls `read` with 0, 1, ... until enough was measured, or until a rank cannot read: then `problem` is the reason. All
// ranks call it equally often, and wait for each other as in the steps of a run, so that each time is the time of
// the slowest rank.
std::vector<double> seconds_of(sharding::RankSession& session, const std::function<void(int64_t)>& read,
                               std::string& problem) {
  std::vector<double> seconds;
  double end = 0;
  for (int64_t i = 0; i < kWarmUps + kMost; ++i) {
    session.barrier();
    const double start = steady_seconds();
    if (i == kWarmUps) end = start + kSeconds;
    std::string own;
    try {
      read(i);
    } catch (const std::exception& error) {
      own = error.what();
    }
    session.barrier();
    const double now = steady_seconds();
    session.heartbeat();
    problem = problem_of_ranks(session, own);
    if (!problem.empty()) return {};
    if (i >= kWarmUps) seconds.push_back(now - start);
    const bool enough = i >= kWarmUps + kFewest - 1 && now > end;
    if (session.gather(enough ? "1" : "").front() == "1") break;
  }
  return seconds;
}

// The task, if all ranks can make it. Otherwise `problem` is the reason of one of them.
std::unique_ptr<trainer::Task> task_of(const trainer::TrainerConfig& config, const sharding::RankSession& session,
                                       std::string& problem) {
  std::unique_ptr<trainer::Task> task;
  std::string own;
  try {
    task = make_task(config);
  } catch (const std::exception& error) {
    own = error.what();
  }
  problem = problem_of_ranks(session, own);
  return problem.empty() ? std::move(task) : nullptr;
}

// Returns nothing if a rank cannot read what it needs: then `problem` is the reason. `most_micro_batches` are those of
// a step of the run.
std::vector<FeedTimes> times_of(trainer::Task& task, trainer::TrainerConfig config, int64_t most_micro_batches,
                                sharding::RankSession& session, std::string& problem) {
  std::vector<FeedTimes> all;
  const int64_t group = config.global_micro_batch();
  int64_t first = 0;  // sample, so that files that were read just now are not read again
  for (const int64_t micro_batches :
       std::set<int64_t>{1, std::clamp<int64_t>(most_micro_batches, 2, kMostMicroBatches)}) {
    config.batch = group * micro_batches;
    trainer::DataHashes hashes;
    const auto read = [&](int64_t step) { return hashes.keep(step, read_batches(task, config, session.rank(), step)); };
    trainer::BatchFeed feed(read, session.device(), /*own_graphs=*/false);  // images have one size
    const int64_t before = first / config.batch + 1;
    const auto next = [&](int64_t i) {
      feed.next(before + i);
      first = (before + i + 1) * config.batch;
    };
    all.push_back({"training", micro_batches, seconds_of(session, next, problem)});
    if (!problem.empty()) return {};
  }
  const int64_t samples = task.evaluation_samples(), rounds = std::max<int64_t>(samples / group, 1);
  const auto evaluate = [&](int64_t i) {
    const int64_t sample = i % rounds * group + session.rank() * config.micro_batch;
    to_device(task.evaluation_batch(sample, config.micro_batch, samples), session.device());
  };
  all.push_back({"evaluation", 1, seconds_of(session, evaluate, problem)});
  return problem.empty() ? all : std::vector<FeedTimes>();
}

}  // namespace

ordered_json feed_facts(const trainer::LoadedConfig& loaded) {
  const std::optional<modules::ImageSizes> sizes = image_sizes(loaded.config.model);
  if (!sizes) return nullptr;
  std::string keys, type;
  for (const configs::Line& line : loaded.lines()) {
    if (line.path == "data.type") type = line.plain;
    if (line.path.starts_with("data.")) keys += line.path + ": " + line.value + '\n';
  }
  return {{"name", type + ", " + std::to_string(loaded.config.micro_batch) + " images of " +
                       std::to_string(sizes->channels) + " x " + std::to_string(sizes->size) + " x " +
                       std::to_string(sizes->size) + ", keys " + hex_digits(hash_bytes(keys.data(), keys.size(), 0))},
          {"threads", threads_of_readers(loaded.config.data)}};
}

std::vector<FeedTimes> time_feed(const trainer::LoadedConfig& loaded, sharding::RankSession& session) {
  if (feed_facts(loaded).is_null()) return {};
  trainer::TrainerConfig config = loaded.config;
  config.run.ranks = session.ranks();
  std::optional<RandomData> random;
  std::string problem;
  std::unique_ptr<trainer::Task> task = task_of(config, session, problem);
  if (task == nullptr && threads_of_readers(config.data).is_null()) {
    if (session.rank() == 0) {
      std::fprintf(stderr, "strata: random images are timed in place of the data: %s\n", printable(problem).c_str());
    }
    config.data.type = random.emplace(config.model, config.data).config().type;
    task = task_of(config, session, problem);
  }
  std::vector<FeedTimes> times;
  if (task != nullptr) {
    times = times_of(*task, config, loaded.config.micro_batches(), session, problem);
    session.pause_watchdog();
  }
  if (!problem.empty() && session.rank() == 0) {
    std::fprintf(stderr, "strata: the reading of images is not timed: %s\n", printable(problem).c_str());
  }
  return times;
}

}  // namespace strata::tools
