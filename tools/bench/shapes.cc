// SPDX-License-Identifier: MIT
#include "tools/bench/shapes.h"

#include <utility>

namespace strata::tools {

using kernels::Activation;
using kernels::OpShape;
using kernels::Reduction;

std::vector<OpShape> common_shapes() {
  std::vector<OpShape> shapes;
  for (const auto& [rows, width] : {std::pair{16384, 4096}, std::pair{8192, 8192}}) {
    shapes.push_back({.op = "rms_norm", .rows = rows, .width = width});
  }
  for (const auto& [rows, width] : {std::pair{16384, 4096}, std::pair{8192, 8192}, std::pair{32768, 4096}}) {
    shapes.push_back({.op = "add_rms_norm", .rows = rows, .width = width});
  }
  for (const char* op : {"layer_norm", "add_layer_norm"}) {
    for (const auto& [rows, width] : {std::pair{65536, 768}, std::pair{32768, 1600}}) {
      shapes.push_back({.op = op, .rows = rows, .width = width, .bias = true});
    }
  }
  shapes.push_back({.op = "layer_norm_gelu_tanh", .rows = 65536, .width = 1000, .bias = true});
  shapes.push_back({.op = "swiglu", .rows = 16384, .width = 14336});
  for (const Activation kind : {Activation::gelu, Activation::gelu_tanh}) {
    shapes.push_back({.op = "activation", .rows = 65536, .width = 3072, .activation = kind});
  }
  for (const char* op : {"dropout", "add_dropout"}) shapes.push_back({.op = op, .rows = 65536, .width = 768});
  shapes.push_back({.op = "rotary", .rows = 16384, .width = 128, .positions = 8192, .heads = 32, .key_value_heads = 8});
  shapes.push_back({.op = "embedding", .rows = 65536, .width = 768, .outputs = 50304});
  shapes.push_back({.op = "cross_entropy", .rows = 65536, .width = 50304});
  shapes.push_back({.op = "cross_entropy", .rows = 16384, .width = 128256});
  shapes.push_back({.op = "linear_cross_entropy", .rows = 65536, .width = 768, .outputs = 50304});
  shapes.push_back({.op = "linear_cross_entropy", .rows = 16384, .width = 4096, .outputs = 128256});
  shapes.push_back({.op = "adamw", .rows = 1, .width = 1'200'000'000});
  shapes.push_back({.op = "global_norm", .rows = 1, .width = 1'200'000'000});
  shapes.push_back({.op = "linear",
                    .rows = 65536,
                    .width = 768,
                    .outputs = 3072,
                    .activation = Activation::gelu_tanh,
                    .bias = true});
  shapes.push_back({.op = "linear", .rows = 8192, .width = 4096, .outputs = 28672});
  struct Heads {
    int64_t batch, positions, heads, key_value_heads, width;
  };
  for (const Heads& h : {Heads{64, 1024, 12, 12, 64}, Heads{8, 4096, 32, 8, 64}, Heads{2, 8192, 32, 8, 128}}) {
    for (const bool deterministic : {false, true}) {
      shapes.push_back({.op = "attention",
                        .rows = h.batch * h.positions,
                        .width = h.width,
                        .positions = h.positions,
                        .heads = h.heads,
                        .key_value_heads = h.key_value_heads,
                        .deterministic = deterministic});
    }
  }
  // These are the sizes of the data sets ogbn-arxiv and ogbn-products.
  constexpr int64_t kArxivNodes = 169'343, kArxivEdges = 2'315'598;
  for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
    shapes.push_back(
        {.op = "neighbor_aggregate", .rows = kArxivNodes, .width = 256, .edges = kArxivEdges, .reduction = reduction});
  }
  shapes.push_back({.op = "neighbor_aggregate", .rows = 2'449'029, .width = 256, .edges = 123'718'280});
  shapes.push_back({.op = "neighbor_attention", .rows = kArxivNodes, .width = 64, .heads = 4, .edges = kArxivEdges});
  return shapes;
}

std::vector<OpShape> small_shapes() {
  std::vector<OpShape> shapes;
  for (const char* op : {"rms_norm", "add_rms_norm"}) shapes.push_back({.op = op, .rows = 2048, .width = 1024});
  for (const char* op : {"layer_norm", "add_layer_norm"}) {
    shapes.push_back({.op = op, .rows = 2048, .width = 1024, .bias = true});
  }
  shapes.push_back({.op = "swiglu", .rows = 2048, .width = 1024});
  shapes.push_back({.op = "activation", .rows = 2048, .width = 1024, .activation = Activation::gelu_tanh});
  shapes.push_back({.op = "layer_norm_gelu_tanh", .rows = 2048, .width = 1024, .bias = true});
  for (const char* op : {"dropout", "add_dropout"}) shapes.push_back({.op = op, .rows = 2048, .width = 1024});
  shapes.push_back({.op = "rotary", .rows = 1024, .width = 64, .positions = 256, .heads = 8, .key_value_heads = 2});
  shapes.push_back({.op = "embedding", .rows = 2048, .width = 512, .outputs = 4096});
  shapes.push_back({.op = "cross_entropy", .rows = 512, .width = 4096});
  shapes.push_back({.op = "linear_cross_entropy", .rows = 512, .width = 256, .outputs = 4096});
  shapes.push_back({.op = "adamw", .rows = 1, .width = 4'000'000});
  shapes.push_back({.op = "global_norm", .rows = 1, .width = 16'000'000});
  shapes.push_back(
      {.op = "linear", .rows = 512, .width = 512, .outputs = 1024, .activation = Activation::gelu_tanh, .bias = true});
  shapes.push_back({.op = "neighbor_aggregate", .rows = 4096, .width = 128, .edges = 30'000});
  shapes.push_back({.op = "neighbor_attention", .rows = 2048, .width = 16, .heads = 4, .edges = 10'000});
  shapes.push_back({.op = "attention", .rows = 512, .width = 64, .positions = 256, .heads = 8, .key_value_heads = 8});
  return shapes;
}

}  // namespace strata::tools
