// SPDX-License-Identifier: MIT
// S sources, T targets, E edges, H heads, F outputs of a head
#include "trainer/memory/graph_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "modules/config/graph_products.h"
#include "trainer/config/graph_data.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using kernels::Reduction;
using modules::GraphConvolutionKind;

// What OpMemory has to know of a graph network.
modules::BlockConfig block_of(const modules::GraphNetworkConfig& model) {
  modules::BlockConfig block;
  block.layers = model.layers, block.width = model.width, block.dropout = model.dropout;
  block.heads = block.key_value_heads = block.feed_forward = 1;
  return block;
}

}  // namespace

GraphMemory::GraphMemory(const TrainerConfig& config, const modules::GraphNetworkConfig& model, const GraphSizes& graph,
                         MemoryLedger& ledger)
    : config_(config),
      model_(model),
      graph_(graph),
      ledger_(ledger),
      ops_(config, block_of(model), {.layers = "layers"}, graph.nodes, /*positions=*/1, ledger),
      tape_(ledger),
      exchanges_(!sees_new_graphs(config.data) && config.run.ranks > 1) {}

bool GraphMemory::knows_its_levels() const {
  const auto knows = [this](const Part& part, const char* module) {
    return !ops_.on_gpu() || !is_traced(ops_.levels(part, module).neighbor_aggregate);
  };
  const std::vector<Part>& layers = ops_.layers();
  const char* module = modules::part_that_aggregates(model_.convolution);
  return std::all_of(layers.begin(), layers.end(), [&](const Part& part) { return knows(part, module); }) &&
         (model_.projection != modules::InputProjection::sparse || knows(ops_.outside(), "projection")) &&
         (!model_.has_pooling() || knows(ops_.head(), "pooling"));
}

std::vector<int64_t> GraphMemory::follow() {
  std::vector<int64_t> left;
  Value logits;
  {
    ledger_.at("the projection");
    const Value given = features();
    Stream stream = {projected(given), {}};
    for (int64_t i = 0; i < model_.layers; ++i) {
      const std::string name = "layer " + std::to_string(i);
      ledger_.at("the forward of " + name);
      const int64_t before = ledger_.now();
      Stream next = part_of(i).recompute == Recompute::full ? made_again(i, stream) : layer(i, stream);
      left.push_back(ledger_.now() - before);
      tape_.in_backward([this, name] { ledger_.at("the backward of " + name); });
      stream = std::move(next);
    }
    kept_ = ledger_.now();
    ledger_.at("the loss");
    const Part& part = ops_.outside();
    const int64_t elements = graph_.of_layer(model_.layers - 1).rows * model_.width;
    const Value nodes = stream.branch.memory ? sum(part, stream.residual, stream.branch, elements) : stream.residual;
    logits = model_.has_pooling() ? pooled(nodes) : nodes;
  }
  loss_forward(logits);
  loss_backward(std::move(logits));
  return left;
}

// Of the nodes of the whole graph: they stand on the device. Otherwise a copy of those of a batch.
GraphMemory::Value GraphMemory::features() {
  const bool sampled = !fan_outs(config_.data).empty();
  const bool copied = has_many_graphs(config_.data) && config_.precision.compute != FloatType::float32;
  const bool sparse = model_.projection == modules::InputProjection::sparse;
  return {sparse || !(sampled || copied) ? tape_.make(0) : make(ops_.outside(), graph_.nodes * model_.features)};
}

GraphMemory::Value GraphMemory::projected(const Value& features) {
  const Part& part = ops_.outside();
  if (model_.projection == modules::InputProjection::none) return features;
  if (model_.projection == modules::InputProjection::dense) {
    return linear(part, features,
                  {.module = "projection", .rows = graph_.nodes, .inputs = model_.features, .outputs = model_.width});
  }
  // The weight is what is summed up.
  const Value weight = MemoryTape::leaf(tape_.make(0));
  return sum(part, aggregate(part, weight, graph_.features, model_.width, Reduction::sum), {},
             graph_.nodes * model_.width);
}

GraphMemory::Stream GraphMemory::made_again(int64_t index, const Stream& stream) {
  const Stream output = tape_.without_gradients([&] { return layer(index, stream); });
  std::vector<Value> inputs = {stream.residual};
  std::vector<Memory> outputs = {output.residual.memory};
  if (stream.branch.memory) inputs.push_back(stream.branch);
  if (output.branch.memory) outputs.push_back(output.branch.memory);
  const auto again = [this, index, inputs](const Gradients& gradients) {
    std::vector<Value> own;
    for (const Value& input : inputs) own.push_back(input.maker ? MemoryTape::leaf(input.memory) : input);
    tape_.nested([&] {
      const Stream result = layer(index, {own[0], own.size() > 1 ? own[1] : Value()});
      std::vector<std::pair<Value, Gradient>> roots;
      for (size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].memory) roots.emplace_back(i == 0 ? result.residual : result.branch, gradients[i]);
      }
      for (auto& [value, gradient] : roots) value.memory = nullptr;
      tape_.backward(std::move(roots));
      // What stays with a leaf is its own.
      for (const Value& input : own) {
        if (!input.maker) continue;
        Gradient& gradient = input.maker->gradients[0];
        const bool is_shared = gradient.memory && (gradient.memory.use_count() > 1 || !gradient.dense);
        if (is_shared) gradient = Gradient(tape_.make(gradient.bytes));
      }
    });
    Gradients made;
    for (const Value& input : own) {
      made.push_back(input.maker ? std::exchange(input.maker->gradients[0], {}) : Gradient());
    }
    return made;
  };
  const std::vector<Value> values = tape_.record(inputs, outputs, {}, /*learns=*/true, again);
  return {values[0], values.size() > 1 ? values[1] : Value()};
}

GraphMemory::Stream GraphMemory::layer(int64_t index, const Stream& stream) {
  const Part& part = part_of(index);
  const int64_t rows = graph_.inputs_of_layer(index), width = model_.inputs_of(index), elements = rows * width;
  const bool norms = model_.starts_with_relu(index) && model_.norm;
  const bool adds = !norms && stream.branch.memory;
  const Value whole = adds ? sum(part, stream.residual, stream.branch, elements) : stream.residual;
  const Stream normed = norms ? norm(part, stream, rows, elements) : Stream{whole, whole};  // y, the sum
  if (!model_.starts_with_relu(index)) return {convolved(index, normed.branch), {}};
  const auto activated = [&](const Value& y) { return relu(part, dropout(part, y, elements), elements); };
  Value active = activated(normed.residual);
  Value result;
  if (part.recompute == Recompute::selective) {
    const Memory place = tape_.make(0);  // what keeps it has nothing of it until the backward
    const auto again = std::make_shared<Memory>();
    tape_.in_backward([again] { again->reset(); });
    result = convolved(index, {place, active.maker, active.place});
    const bool is_kept = place.use_count() > 1;
    tape_.in_backward([this, &part, again, is_kept, elements, norms] {
      const Memory y = norms ? make(part, elements) : tape_.make(0);
      const Value dropped = tape_.without_gradients([&] { return dropout(part, {y}, elements); });
      *again = make(part, elements);
      if (!is_kept) again->reset();
    });
  } else {
    result = convolved(index, active);
  }
  if (!model_.adds_input(index)) return {result, {}};
  return {narrowed(part, normed.branch, elements), result};
}

GraphMemory::Value GraphMemory::convolved(int64_t index, const Value& x) {
  if (model_.convolution == GraphConvolutionKind::gat) return attended(index, x);
  if (modules::takes_gathered_features(model_, index, !sees_new_graphs(config_.data))) {
    return product_of(index, {tape_.make(0)});
  }
  return modules::multiplies_first(model_, index) ? sum_of_products(index, x) : product_of(index, gathered(index, x));
}

GraphMemory::Value GraphMemory::gathered(int64_t index, const Value& x) {
  const Part& part = part_of(index);
  const MatrixSize matrix = graph_.of_layer(index);
  const int64_t inputs = model_.inputs_of(index), elements = matrix.rows * inputs;
  const Value own = targets_of(part, x, index, graph_.inputs_of_layer(index), inputs);
  const Value around =
      aggregate(part, with_halo(part, x, index, inputs), matrix, inputs, modules::reduction_of(model_));
  if (model_.convolution == GraphConvolutionKind::gcn) return around;
  if (model_.convolution == GraphConvolutionKind::gin) return sum(part, own, around, elements);
  const int64_t half = ops_.tensor(elements, part.bytes);
  const auto halves = [half](const Gradients& g) {
    return Gradients{Gradient(g[0].memory, half), Gradient(g[0].memory, half)};
  };
  return tape_.record({own, around}, make(part, 2 * elements), {}, /*learns=*/false, halves);
}

GraphMemory::Value GraphMemory::product_of(int64_t index, const Value& gathered) {
  const Part& part = part_of(index);
  const int64_t rows = graph_.of_layer(index).rows, inputs = model_.inputs_of(index);
  Product product{.module = "neighbor", .rows = rows, .inputs = inputs, .outputs = model_.outputs_of(index)};
  product.relu = model_.ends_in_relu(index);
  if (model_.convolution == GraphConvolutionKind::gin) {
    const Product up{.module = "mlp.up", .rows = rows, .inputs = inputs, .outputs = model_.width, .relu = true};
    product.module = "mlp.down", product.inputs = model_.width;
    return linear(part, linear(part, gathered, up), product);
  }
  if (model_.convolution == GraphConvolutionKind::sage) {
    product.inputs = 2 * inputs;
    product.made_weight = made(make(part, product.outputs * product.inputs));
  }
  return linear(part, gathered, product);
}

GraphMemory::Value GraphMemory::sum_of_products(int64_t index, const Value& x) {
  const Part& part = part_of(index);
  const MatrixSize matrix = graph_.of_layer(index);
  const int64_t inputs = model_.inputs_of(index), outputs = model_.outputs_of(index);
  const int64_t width = ops_.on_gpu() ? modules::width_in_vectors(outputs, part.bytes) : outputs;
  const auto filled_up = [&] { return made(width > outputs ? make(part, width * inputs) : tape_.make(0)); };
  Product product{
      .module = "neighbor", .rows = graph_.inputs_of_layer(index), .inputs = inputs, .outputs = width, .bias = false};
  product.made_weight = filled_up();
  const Value around = aggregate(part, with_halo(part, linear(part, x, product), index, width), matrix, width,
                                 modules::reduction_of(model_));
  const auto own = [&] {
    if (model_.convolution != GraphConvolutionKind::sage) return Value();
    product.rows = matrix.rows, product.bias = true;
    product.made_weight = filled_up();
    return linear(part, targets_of(part, x, index, graph_.inputs_of_layer(index), inputs), product);
  };
  const int64_t elements = matrix.rows * width;
  const Value y = narrowed(part, sum(part, own(), around, elements), elements);
  return model_.ends_in_relu(index) ? relu(part, y, matrix.rows * outputs) : y;
}

GraphMemory::Value GraphMemory::attended(int64_t index, const Value& x) {
  const Part& part = part_of(index);
  const MatrixSize matrix = graph_.of_layer(index);
  const int64_t heads = model_.heads, outputs = model_.outputs_of(index),
                of_head = modules::outputs_of_head(model_, index);
  const int64_t width = heads * of_head, targets = matrix.rows;
  const bool averages = model_.gives_classes(index);
  const Memory bias = averages ? make(part, width) : tape_.make(0);
  Product product{
      .module = "neighbor", .rows = graph_.inputs_of_layer(index), .inputs = model_.inputs_of(index), .outputs = width};
  product.made_bias = made(bias);
  const Value h = with_halo(part, linear(part, x, product), index, width);
  {
    const Memory of_sources = make(part, heads * width), of_targets = make(part, heads * width);
    product = {.module = "attention", .rows = matrix.columns, .inputs = width, .outputs = 2 * heads};
    product.made_weight = made(make(part, 2 * heads * width));
  }
  const Memory score_bias = make(part, 2 * heads);
  product.made_bias = made(make(part, 2 * heads));
  const Value scores = linear(part, h, product);
  const Value source = narrowed(part, scores, matrix.columns * 2 * heads);
  const Value target = narrowed(part, targets_of(part, scores, index, matrix.columns, 2 * heads), targets * 2 * heads);
  const Value y = attention(part, h, source, target, matrix, heads, of_head, /*copies_scores=*/true);
  if (!averages) return model_.ends_in_relu(index) ? relu(part, y, targets * outputs) : y;
  const auto spread = [this, &part, elements = targets * width](const Gradients&) {
    return Gradients{make(part, elements)};
  };
  return tape_.record({y}, make(part, targets * of_head), {}, false, spread);
}

GraphMemory::Value GraphMemory::pooled(const Value& x) {
  const Part& part = ops_.head();
  const MatrixSize& matrix = graph_.pooling;
  const Product head{.module = "head", .rows = matrix.rows, .inputs = model_.width, .outputs = model_.classes};
  if (model_.pooling != modules::NodePooling::attention) {
    return linear(part, aggregate(part, x, matrix, model_.width, Reduction::sum), head);
  }
  const Value score =
      linear(part, x, {.module = "pooling.gate", .rows = matrix.columns, .inputs = model_.width, .outputs = 1});
  const Value of_graph{make(part, matrix.rows)};
  return linear(
      part, attention(part, x, score, of_graph, matrix, /*heads=*/1, model_.width, /*copies_scores=*/part.bytes == 2),
      head);
}

void GraphMemory::loss_forward(Value& logits) {
  const int64_t rows = items(), scores = ops_.tensor(rows * model_.classes, ops_.outside().bytes);
  const Level level = ops_.loss_level();
  // Which rows count, their labels, their losses.
  const Memory of_rows = tape_.make(is_traced(level) ? rows * (1 + 8 + 4) : rows * 4);
  ops_.cross_entropy(level, rows, model_.classes);
  // The gradient takes their place, unless they are a part of something wider.
  if (*logits.memory > scores) logits.memory = tape_.make(scores);
}

void GraphMemory::loss_backward(Value logits) {
  ledger_.at("the backward of the loss");
  ops_.cross_entropy_backward(ops_.loss_level(), items(), model_.classes);
  std::vector<std::pair<Value, Gradient>> roots;
  roots.emplace_back(Value{nullptr, logits.maker, logits.place}, Gradient(std::exchange(logits.memory, nullptr)));
  tape_.backward(std::move(roots));
}

int64_t GraphMemory::items() const {
  return model_.has_pooling() ? graph_.pooling.rows : graph_.of_layer(model_.layers - 1).rows;
}

int64_t GraphMemory::bytes_of(const MatrixSize& matrix) const {
  const auto tensor = [&](int64_t elements, int64_t bytes) { return ops_.tensor(elements, bytes); };
  if (matrix.rows == 0) return 0;
  return tensor(matrix.rows + 1, 8) + tensor(matrix.columns + 1, 8) + 3 * tensor(matrix.entries, 4) +
         (matrix.weighted ? tensor(matrix.entries, 4) : 0);
}

int64_t GraphMemory::standing() const {
  const MatrixSize& graph = graph_.standing;
  if (graph.rows == 0) return 0;
  const int64_t exchange =
      graph_.sent == 0 ? 0 : ops_.tensor(graph_.sent, 8) + bytes_of({graph.rows, graph_.sent, graph_.sent});
  const int64_t labels = graph_.splits * ops_.tensor(graph.rows, 8), bytes = ops_.outside().bytes;
  const bool sampled = sees_new_graphs(config_.data);
  if (model_.projection == modules::InputProjection::sparse) {
    return bytes_of(graph) + exchange + labels + bytes_of(graph_.features);
  }
  const int64_t own = ops_.tensor((model_.has_projection() ? graph.rows : graph.columns) * model_.features, bytes);
  // Evaluation is of the whole graph, where neighbors are sampled too.
  const bool gathers = modules::takes_gathered_features(model_, /*layer=*/0, /*gathered_once=*/true);
  const int64_t times = model_.convolution == GraphConvolutionKind::sage ? 2 : 1;
  const int64_t gathered = gathers ? ops_.tensor(times * graph.rows * model_.features, bytes) : 0;
  return bytes_of(graph) + exchange + labels + own + gathered + (sampled ? own : 0);
}

int64_t GraphMemory::batch() const {
  if (!sees_new_graphs(config_.data)) return 2 * ops_.tensor(1, 8);
  int64_t bytes = bytes_of(graph_.features) + bytes_of(graph_.pooling) + ops_.tensor(items(), 8);
  for (const MatrixSize& layer : graph_.layers) bytes += bytes_of(layer);
  const bool has_features = has_many_graphs(config_.data);
  return bytes + ops_.tensor(has_features ? graph_.nodes * model_.features : graph_.nodes, has_features ? 4 : 8);
}

}  // namespace strata::trainer
