// SPDX-License-Identifier: MIT
// The `precision:` section: the types in which each group of parameters computes and in which its gradients are
// reduced, and the loss scale of float16.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "configs/range.h"
#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"

namespace strata::trainer {

enum class FloatType { float32, bfloat16, float16 };
constexpr std::array<std::string_view, 3> names(FloatType) { return {"float32", "bfloat16", "float16"}; }
constexpr int64_t bytes_of(FloatType type) {
  switch (type) {
    case FloatType::float32:
      return 4;
    case FloatType::bfloat16:
    case FloatType::float16:
      return 2;
  }
  return 0;  // unreachable: the switch is complete
}

struct LayerPrecision {
  configs::Range only = {};
  FloatType compute = FloatType::float32;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("only", only, modules::kOnlyLayers);
    fields.require("compute", compute, "type of their activations and of the weights that they read");
  }
};

struct ModulePrecision {
  std::string only = {};
  FloatType compute = FloatType::float32;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("only", only,
                   "group of parameters that are gathered together: root (embedding, last norm, tied head), head, "
                   "blocks.3 or blocks.0-3");
    fields.require("compute", compute, "type of its activations and of the weights that it reads");
  }
};

// The loss scale of float16, as in torch.amp.GradScaler. See trainer/step/loss_scale.h.
struct LossScaling {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;

  bool operator==(const LossScaling&) const = default;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("initial", initial, "scale of the first step, as init_scale of torch.amp.GradScaler",
               configs::between(1, 1e9));
    fields.add("growth", growth, "the scale is multiplied by this after growth_interval steps without an overflow",
               {.minimum = 1, .maximum = 1024, .excludes_minimum = true});
    fields.add("backoff", backoff, "the scale is multiplied by this after a step whose gradients overflow",
               {.minimum = 1e-3, .maximum = 1, .excludes_maximum = true});
    fields.add("growth_interval", growth_interval, "steps without an overflow after which the scale grows",
               configs::between(1, 1e9), "steps");
  }
};

// A type belongs to a whole group, because the weights of a group are gathered as one buffer.
struct PrecisionConfig {
  FloatType compute = FloatType::float32;
  FloatType reduce = FloatType::float32;
  LossScaling loss_scaling = {};
  std::vector<LayerPrecision> layers = {};
  std::vector<ModulePrecision> modules = {};  // they win over `layers`; later entries win over earlier ones
  modules::LinearFormatsConfig linear = {};

  // `group` is a name in the parameter table.
  FloatType compute_of(const std::string& group) const;
  // Gradients that were computed in float32 are reduced in float32.
  FloatType reduce_of(const std::string& group) const;
  // True if some groups compute in float16. Then the loss is scaled.
  bool scales_loss() const;
  // True if groups may have different types, so that layers must cast their inputs.
  bool is_mixed() const { return !layers.empty() || !modules.empty(); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("compute", compute,
               "type of activations and of the weights that layers read; master weights are always float32");
    fields.add(
        "reduce", reduce,
        "type in which gradients are reduced between ranks; gradients of float32 layers are always reduced in float32; "
        "float16 needs layers that compute in float16");
    fields.section("loss_scaling", loss_scaling,
                   "the scale of the loss in the backward, which keeps small gradients of float16 above zero");
    fields.sections("layers", layers, "another compute type for some layers; later entries win");
    fields.sections(
        "modules", modules,
        "another compute type for some parameter groups by name; they win over layers, and later entries win");
    fields.section("linear", linear, "a number format in which linear layers multiply");
  }
};

void check(const PrecisionConfig& precision, int64_t layers, configs::Checks& checks);

// Rules between the lines of `precision.modules` and the modules that the model declares.
void check_modules(const PrecisionConfig& precision, const std::vector<modules::DeclaredModule>& modules,
                   configs::Checks& checks);

}  // namespace strata::trainer
