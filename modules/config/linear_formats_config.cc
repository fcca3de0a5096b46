// SPDX-License-Identifier: MIT
#include "modules/config/linear_formats_config.h"

#include <algorithm>

#include "base/text/word_of.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

using kernels::Element;
using kernels::ProductFormats;
using kernels::Scaling;

Scaling scaling_of_fp8(LinearScaling scaling) {
  switch (scaling) {
    case LinearScaling::current:
    case LinearScaling::delayed:
      return Scaling::tensor;
    case LinearScaling::row:
      return Scaling::row;
    case LinearScaling::block:
      return Scaling::block;
  }
  return Scaling::tensor;  // unreachable: the switch is complete
}

// The one list of formats and their elements. fp8 is the hybrid recipe of Transformer Engine, mxfp8 NVIDIA's recipe for
// MXFP8, and mxfp6 the recipe of "Microscaling Data Formats for Deep Learning" (2023).
std::optional<ProductFormats> formats_of(LinearFormat format, LinearScaling scaling) {
  const auto same = [](Element element, Scaling scales) {
    return ProductFormats{{element, scales}, {element, scales}};
  };
  switch (format) {
    case LinearFormat::none:
      return {};
    case LinearFormat::fp8:
      return ProductFormats{{Element::e4m3, scaling_of_fp8(scaling)}, {Element::e5m2, scaling_of_fp8(scaling)}};
    case LinearFormat::mxfp8:
      return same(Element::e4m3, Scaling::mx);
    case LinearFormat::mxfp6:
      return same(Element::e3m2, Scaling::mx);
    case LinearFormat::mxfp4:
      return same(Element::e2m1, Scaling::mx);
    case LinearFormat::nvfp4:
      return same(Element::e2m1, Scaling::nv);
  }
  return {};  // unreachable: the switch is complete
}

bool is_kept(const LinearFormatsConfig& formats, std::string_view module) {
  return std::ranges::any_of(formats.keep, [&](const std::string& name) { return covers(name, module); });
}

void check_widths(const LinearFormatsConfig& formats, const std::vector<DeclaredModule>& modules,
                  configs::Checks& checks) {
  for (const DeclaredModule& module : modules) {
    const auto rounded = formats.of(module);
    if (!rounded) continue;
    const std::string width = undivided_width(*rounded, *module.product);
    if (width.empty()) continue;
    checks.fail("format", word_of(formats.format) + " has a scale for each block of " +
                              std::to_string(kernels::block_size(rounded->values.scaling)) +
                              " elements, which does not divide the " + width + " of " + module.name +
                              "; expected another width, or " + std::string(name_in_layer(module.name)) + " in keep");
    return;
  }
}

}  // namespace

std::optional<kernels::ProductFormats> LinearFormatsConfig::of(std::string_view module) const {
  if (!covers(only, module) || is_kept(*this, module)) return {};
  return formats_of(format, scaling.value_or(LinearScaling::current));
}

std::optional<kernels::ProductFormats> LinearFormatsConfig::of(const DeclaredModule& module) const {
  if (!module.product) return {};
  return of(module.name);
}

std::string LinearFormatsConfig::text() const {
  const std::string scales = format == LinearFormat::fp8 ? " " + word_of(scaling.value_or(LinearScaling::current)) : "";
  return word_of(format) + scales;
}

void LinearFormatsConfig::name_blocks(int64_t layers) {
  for (std::string& name : keep) {
    if (name == "first") name = block_name(0);
    if (name == "last") name = block_name(layers - 1);
  }
}

// Forward and backward of a layer round along its inputs and along its outputs. A gradient of a weight is rounded along
// the tokens, and the last block of these is filled with zeros.
std::string undivided_width(const ProductFormats& formats, const DeclaredLinear& product) {
  const int64_t block = kernels::block_size(formats.values.scaling);
  if (block == 0) return "";
  if (product.inputs % block != 0) return std::to_string(product.inputs) + " inputs";
  return product.outputs % block != 0 ? std::to_string(product.outputs) + " outputs" : "";
}

void check(const LinearFormatsConfig& formats, bool has_blocks, configs::Checks& checks) {
  if (!checks.can_check({"format"})) return;
  const std::string format = word_of(formats.format);
  if (formats.format == LinearFormat::none) {
    const LinearFormatsConfig unused;
    if (formats.scaling) checks.fail("scaling", "changes nothing with format: none");
    if (formats.history) checks.fail("history", "changes nothing with format: none");
    if (formats.only != unused.only) checks.fail("only", "changes nothing with format: none");
    if (!formats.keep.empty()) checks.fail("keep", "changes nothing with format: none");
  } else if (!has_blocks) {
    checks.fail("format",
                "expected none, because the products of a graph_network take no number format, got " + format);
  } else if (formats.scaling && formats.format != LinearFormat::fp8) {
    checks.fail("scaling", "expected no scaling, because the scales are a part of " + format + ", got " +
                               word_of(*formats.scaling));
  } else if (formats.history && !formats.delays()) {
    checks.fail("history", "expected scaling: delayed with it, got " + formats.text() +
                               ", whose scales are computed from the values at hand");
  }
}

void check_modules(const LinearFormatsConfig& formats, const std::vector<DeclaredModule>& modules,
                   configs::Checks& checks) {
  if (formats.format == LinearFormat::none) return;
  const std::string problem = problem_of_linear_layer(formats.only, "a number format", modules);
  if (!problem.empty()) checks.fail("only", problem);
  for (size_t i = 0; i < formats.keep.size(); ++i) {
    const std::string why = problem_of_module(formats.keep[i], modules);
    if (!why.empty()) checks.fail("keep." + std::to_string(i), why + "; or first or last");
  }
  const auto is_left = [&](const DeclaredModule& module) { return formats.of(module).has_value(); };
  if (problem.empty() && std::ranges::none_of(modules, is_left)) {
    checks.fail("keep", "leaves no linear layer of " + formats.only);
  }
  check_widths(formats, modules, checks);
}

}  // namespace strata::modules
