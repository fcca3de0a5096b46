// SPDX-License-Identifier: MIT
// The scope in which a module is constructed: its name, the source of its parameters, the level of each op, and the
// number formats and the sparsity of its products.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"
#include "modules/config/parameter_group.h"
#include "modules/config/sparsity_config.h"

namespace strata::modules {

using at::Tensor;

// A group of parameters that are gathered together.
struct Group {
  std::string name;  // root, blocks.3, head
  Role role = Role::root;
};

// Receives everything that constructors declare, in their order. Implementations are in modules/model_sources.h.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // Returns a leaf that requires gradients. Its data may be absent until the layer that uses it runs, and a declaring
  // source returns an undefined tensor. So constructors keep the tensor and never read or copy it.
  virtual Tensor parameter(const Group& group, const Parameter& parameter) = 0;
  // Declares an op that a module computes, possibly more than once. `op` is a key in `kernels:`, as a literal.
  virtual void op(const Group& group, const std::string& module, std::string_view op, kernels::Level level) = 0;
  // Declares the product of a linear layer, which may have a number format.
  virtual void product(const Group& /*group*/, const std::string& /*module*/, const DeclaredLinear& /*product*/) {}
  // Returns the buffers of a linear layer whose scales are delayed. Undefined if the source knows only the weights of a
  // model.
  virtual kernels::DelayedScales delayed_scales(const std::string& /*module*/) { return {}; }
  // Returns whether weights are pruned now, which may change between steps. Null: they always are.
  virtual std::shared_ptr<const bool> prunes() { return nullptr; }
};

// A module and its group. Constructors read a scope and do not keep it: the source and the configuration may be
// destroyed before the model computes.
class Scope {
 public:
  // The scope of the model itself. Its group is the root. Without `formats` no product has a number format, and without
  // `sparsity` no weight is pruned.
  Scope(ModelSource& source, const KernelsConfig& kernels, const LinearFormatsConfig* formats = nullptr,
        const SparsityConfig* sparsity = nullptr)
      : source_(&source), kernels_(&kernels), formats_(formats), sparsity_(sparsity) {}

  // blocks.3 / "attention" is blocks.3.attention, in the same group. An empty part gives the same scope.
  Scope operator/(std::string_view part) const;
  // The scope of a layer. Its parameters are a group of their own, which has the layer's name.
  Scope layer(std::string_view part) const;
  // The scope of a part after the layers. All such parts are in the group `head`.
  Scope head(std::string_view part) const;

  // Declares a parameter by its name in the module: {"weight", {outputs, inputs}, Initialization::normal}. The flat
  // buffers of a group hold parameters with weight decay first, each kind in the order of these calls.
  Tensor parameter(Parameter parameter) const;

  // Returns the level of an op, by its key in `kernels:`. A constructor must ask only for ops that its module computes,
  // because these calls also make the table of ops by module.
  kernels::Level level(std::string_view op) const;

  // Returns the number formats of the product of a linear layer; nothing if it has none. It also records that the
  // module has a product.
  std::optional<kernels::ProductFormats> product_formats(const DeclaredLinear& product) const;

  // Returns where the scales of the product come from; undefined: from the values at hand.
  kernels::DelayedScales delayed_scales() const;

  // Returns how the weight of the linear layer is pruned; nothing if it is not.
  std::optional<kernels::PruneMask> prune_mask() const {
    return sparsity_ != nullptr && sparsity_->prunes(name_) ? std::optional(sparsity_->mask) : std::nullopt;
  }
  // Returns whether it is pruned now. Null: always, if at all.
  std::shared_ptr<const bool> prunes() const { return prune_mask() ? source_->prunes() : nullptr; }

 private:
  ModelSource* source_;
  const KernelsConfig* kernels_;
  const LinearFormatsConfig* formats_;  // null: none
  const SparsityConfig* sparsity_;      // null: none
  std::string name_;                    // empty: the model
  Group group_ = {"root", Role::root};
};

}  // namespace strata::modules
