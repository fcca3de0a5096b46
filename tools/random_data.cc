// SPDX-License-Identifier: MIT
#include "tools/random_data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "trainer/config/graph_data_facts.h"

namespace strata::tools {
namespace {

constexpr int64_t kSamples = 256, kMostNumbers = 64 << 20;

class Random {
 public:
  // Returns a number below `bound`.
  uint64_t next(int64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % static_cast<uint64_t>(bound);
  }

 private:
  uint64_t state_ = 1;
};

void finish(std::ofstream& file, const std::string& path) {
  if (!file.flush()) throw Error(ExitCode::storage, path + ": cannot be written");
}

// Writes random tokens of the whole vocabulary, in the format of llm.c.
void write_tokens(const std::string& path, int64_t count, int64_t vocabulary) {
  std::ofstream file(path, std::ios::binary);
  const std::array<int32_t, 256> header{20240801, 7, static_cast<int32_t>(count)};
  file.write(reinterpret_cast<const char*>(header.data()), sizeof header);
  Random random;
  for (int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<uint32_t>(random.next(vocabulary));
    file.write(reinterpret_cast<const char*>(&token), sizeof token);
  }
  finish(file, path);
}

// Writes an array of random bytes below `bound`, in the IDX format.
void write_bytes(const std::string& path, std::initializer_list<int64_t> sizes, int64_t bound) {
  std::ofstream file(path, std::ios::binary);
  for (const size_t byte : {size_t{0}, size_t{0}, size_t{8}, sizes.size()}) file.put(static_cast<char>(byte));
  int64_t count = 1;
  for (const int64_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) file.put(static_cast<char>(size >> shift));
    count *= size;
  }
  Random random;
  for (int64_t i = 0; i < count; ++i) file.put(static_cast<char>(random.next(bound)));
  finish(file, path);
}

// Writes the ends of documents that have `average` tokens on average. tools/bench/packed_text.py draws the same ones.
void write_document_ends(const std::string& path, int64_t tokens, int64_t average) {
  std::vector<int32_t> ends;
  Random random;
  for (int64_t end = 0; end < tokens;) {
    end = std::min(end + 1 + static_cast<int64_t>(random.next(2 * average - 1)), tokens);
    ends.push_back(static_cast<int32_t>(end));
  }
  std::ofstream file(path, std::ios::binary);
  const std::array<int32_t, 256> header{20261125, 1, static_cast<int32_t>(ends.size()), static_cast<int32_t>(tokens)};
  file.write(reinterpret_cast<const char*>(header.data()), sizeof header);
  file.write(reinterpret_cast<const char*>(ends.data()), static_cast<std::streamsize>(ends.size() * sizeof(int32_t)));
  finish(file, path);
}

trainer::TextDataConfig write_data(const modules::TransformerConfig& model, const std::string& folder,
                                   int64_t document_tokens) {
  const std::string path = folder + "/tokens.bin";
  const int64_t tokens = std::min(kSamples * model.sequence + 1, kMostNumbers);
  write_tokens(path, tokens, model.vocabulary);
  const int64_t average = document_tokens > 0 ? document_tokens : std::max<int64_t>(model.sequence / 2, 1);
  write_document_ends(path + ".documents", tokens, average);
  return {path, path};
}

template <modules::TakesImages Model>
trainer::IdxDataConfig write_data(const Model& config, const std::string& folder, int64_t /*document_tokens*/) {
  const modules::ImageSizes model = config.image_sizes();
  const std::string images = folder + "/images", labels = folder + "/labels";
  const int64_t pixels = model.channels * model.size * model.size;
  const int64_t count = std::clamp<int64_t>(kMostNumbers / pixels, 1, kSamples);
  write_bytes(images, {count, model.channels, model.size, model.size}, 256);
  write_bytes(labels, {count}, std::min<int64_t>(model.classes, 256));
  trainer::IdxDataConfig data;
  data.train_images = data.validation_images = images;
  data.train_labels = data.validation_labels = labels;
  return data;
}

trainer::SyntheticGraphDataConfig write_data(const modules::GraphNetworkConfig&, const std::string& /*folder*/,
                                             int64_t /*document_tokens*/) {
  return {.nodes = 10'000, .edges = 100'000};
}

}  // namespace

RandomData::RandomData(const modules::ModelConfig& model, const trainer::DataConfig& data, int64_t document_tokens)
    : config_(data) {
  if (std::holds_alternative<trainer::SyntheticGraphDataConfig>(config_.type) || labels_whole_graphs(config_)) return;
  config_.type = std::visit(
      [&](const auto& type) -> decltype(config_.type) { return write_data(type, folder_.path(), document_tokens); },
      model.type);
  const std::vector<int64_t> fan_outs = trainer::fan_outs(data);
  if (auto* text = std::get_if<trainer::TextDataConfig>(&config_.type)) text->documents = trainer::documents_of(data);
  auto* graph = std::get_if<trainer::SyntheticGraphDataConfig>(&config_.type);
  if (graph != nullptr && !fan_outs.empty()) graph->neighbors = fan_outs;
}

}  // namespace strata::tools
