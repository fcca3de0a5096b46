// SPDX-License-Identifier: MIT
// The data between layers, the context of a step, and the type of a layer.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

namespace strata::modules {

using at::Tensor;

// The activation is residual + branch. The next layer's norm adds a pending branch in the same pass.
struct ResidualStream {
  Tensor residual, branch;  // [B, T, D], in graph networks [nodes, D]; branch undefined: nothing is pending

  Tensor sum() const { return branch.defined() ? at::add(residual, branch) : residual; }
};

// Casts the inputs of a module to the type of its parameters.
inline ResidualStream cast_stream(const ResidualStream& stream, at::ScalarType type) {
  return {stream.residual.to(type), stream.branch.defined() ? stream.branch.to(type) : Tensor()};
}

// The values that layers read in every step, apart from their inputs: two for all layers, and a bag with one value per
// type for some of them. The task fills it once per micro-batch. Layers ask by type, as in context.get<RotaryTables>().
// Copies share the values.
class StepContext {
 public:
  Tensor dropout_key;  // int64 [1] on the device, made from run.seed and the step; undefined: no dropout
  // Number of the first row (position, patch or node) of this micro-batch among the rows of all ranks. Dropout masks
  // depend on it and so do not depend on the number of ranks.
  int64_t first_row = 0;

  template <class Value>
  void put(std::shared_ptr<const Value> value) {
    for (auto& [type, held] : bag_) {
      if (type != nullptr && type != type_of<Value>()) continue;
      type = type_of<Value>();
      held = std::move(value);
      return;
    }
    TORCH_CHECK(false, "the context of a step has no place for another value; raise kMostValues");
  }

  // Returns null if the task put in no value of this type.
  template <class Value>
  const Value* find() const {
    for (const auto& [type, held] : bag_) {
      if (type == type_of<Value>()) return static_cast<const Value*>(held.get());
    }
    return nullptr;
  }

  template <class Value>
  const Value& get() const {
    const Value* value = find<Value>();
    TORCH_CHECK(value != nullptr,
                "a layer needs what the task did not put into the context of the step: ", typeid(Value).name());
    return *value;
  }

 private:
  static constexpr size_t kMostValues = 8;
  struct Held {
    const void* type = nullptr;
    std::shared_ptr<const void> value;
  };
  template <class Value>
  static const void* type_of() {
    static const char tag = 0;
    return &tag;
  }
  std::array<Held, kMostValues> bag_;
};

using Layer = std::function<ResidualStream(const ResidualStream&, const StepContext&)>;
// Takes a layer and its index, and returns what replaces the layer: recomputation, timing or sharding with the layer in
// it. Functions of this type have the name wrap_layer. wrap_layers of a model calls one for each layer, in order.
using WrapLayer = std::function<Layer(int64_t index, Layer layer)>;

// Replaces each layer by wrap(index, layer), in order.
inline void wrap_each(std::vector<Layer>& layers, const WrapLayer& wrap) {
  for (size_t i = 0; i < layers.size(); ++i) layers[i] = wrap(static_cast<int64_t>(i), std::move(layers[i]));
}

}  // namespace strata::modules
