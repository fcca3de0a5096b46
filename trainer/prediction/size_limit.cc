// SPDX-License-Identifier: MIT
#include "trainer/prediction/size_limit.h"

#include <concepts>
#include <utility>
#include <variant>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/grouped_digits.h"
#include "kernels/linear_cross_entropy/head_chunks.h"
#include "kernels/runtime/traced.h"
#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {
namespace {

struct Size {
  std::string key;
  int64_t value;
};

// Return the sizes by which a sample has most numbers.
std::vector<Size> sizes_of(const modules::TransformerConfig& model) {
  const bool has_wide_head = model.vocabulary >= model.feed_forward;
  return {{"model.sequence", model.sequence},
          has_wide_head ? Size{"model.vocabulary", model.vocabulary} : Size{"model.feed_forward", model.feed_forward}};
}
std::vector<Size> sizes_of(const modules::GraphNetworkConfig& model) {
  return {{"model.features", model.features}, {"model.width", model.width}};
}
template <modules::TakesImages Model>
std::vector<Size> sizes_of(const Model& model) {
  if (model.classes > model.patches() * model.width) return {{"model.classes", model.classes}};
  return {{"model.image_size", model.image_size}, {"model.image_size", model.image_size}, {"model.width", model.width}};
}

}  // namespace

Error too_large(const TrainerConfig& config, const std::string& reason) {
  std::vector<Size> sizes = std::visit([](const auto& model) { return sizes_of(model); }, config.model.type);
  if (!shares_samples(config.model, config.data)) sizes.insert(sizes.begin(), {"micro_batch", config.micro_batch});
  double product = 1;
  std::string text;
  const Size* largest = &sizes.front();
  for (const Size& size : sizes) {
    product *= static_cast<double>(size.value);
    text += (text.empty() ? "" : " x ") + size.key + " " + grouped_digits(size.value);
    if (size.value > largest->value) largest = &size;
  }
  const std::string& lower =
      sizes.front().key == "micro_batch" && config.micro_batch > 1 ? sizes.front().key : largest->key;
  return {ExitCode::configuration, text + formatted(" = %.3g", product) +
                                       ": a step of one rank is too large, because " + reason + "; lower " + lower};
}

int64_t bytes_of_batches(const TrainerConfig& config, int64_t a, int64_t b) {
  if (b == 0 || a <= kernels::kMostTracedBytes / b) return a * b;
  const double product = static_cast<double>(a) * static_cast<double>(b);
  throw Error(ExitCode::configuration, "batch " + grouped_digits(config.batch) +
                                           formatted(": the micro-batches of a step would take %.3g bytes on one rank, "
                                                     "and 2^60 are counted at most; lower batch",
                                                     product));
}

void check_chunks(const TrainerConfig& config, bool on_gpu) {
  const auto* model = std::get_if<modules::TransformerConfig>(&config.model.type);
  if (model == nullptr || !config.kernels.levels.linear_cross_entropy) return;
  constexpr int64_t kMostChunks = 10'000;
  const int64_t rows = config.micro_batch * model->sequence / config.sharding.sequence;
  const int64_t chunks = rows / kernels::rows_at_a_time(rows, model->vocabulary, on_gpu);
  if (chunks <= kMostChunks) return;
  throw too_large(config, "linear_cross_entropy would compute " + grouped_digits(chunks) +
                              " chunks of rows, and a prediction follows " + grouped_digits(kMostChunks) + " at most");
}

}  // namespace strata::trainer
