// SPDX-License-Identifier: MIT
// The `precision.linear:` section: the number format in which the linear layers of some modules multiply.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "kernels/quantize/number_format.h"
#include "modules/config/module.h"

namespace strata::modules {

enum class LinearFormat { none, fp8, mxfp8, mxfp6, mxfp4, nvfp4 };
constexpr std::array<std::string_view, 6> names(LinearFormat) {
  return {"none", "fp8", "mxfp8", "mxfp6", "mxfp4", "nvfp4"};
}

// The scales of fp8: one for the tensor, for a row, or for 128 elements of a row, computed from the tensor that is
// rounded. `delayed` is one for the tensor, from the largest magnitude of earlier steps.
enum class LinearScaling { current, row, block, delayed };
constexpr std::array<std::string_view, 4> names(LinearScaling) { return {"current", "row", "block", "delayed"}; }

struct LinearFormatsConfig {
  static constexpr int64_t kMostHistory = 1024;  // steps, the default of Transformer Engine

  LinearFormat format = LinearFormat::none;
  std::optional<LinearScaling> scaling = {};  // absent: current for fp8; the other formats have scales of their own
  std::optional<int64_t> history = {};        // absent: kMostHistory with scaling: delayed
  std::string only = "blocks";
  std::vector<std::string> keep = {};

  // Returns the formats of a module by its full name; nothing if it multiplies in precision.compute.
  std::optional<kernels::ProductFormats> of(std::string_view module) const;
  // The same for a declared module. Returns nothing too if the module has no product.
  std::optional<kernels::ProductFormats> of(const DeclaredModule& module) const;
  bool delays() const { return format == LinearFormat::fp8 && scaling == LinearScaling::delayed; }
  // True if the module has a product whose scales are delayed.
  bool delays(const DeclaredModule& module) const { return delays() && of(module); }
  int64_t steps_of_history() const { return history.value_or(kMostHistory); }
  // Returns a text such as "fp8 row".
  std::string text() const;
  // Replaces `first` and `last` in `keep` by the names of these blocks.
  void name_blocks(int64_t layers);

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("format", format,
               "number format in which linear layers multiply; fp8 with scaling: current, row or delayed is that of "
               "the GPU at level cuda, and so are mxfp8 and nvfp4 from compute capability 10.0 on; all else is "
               "emulated; none: they multiply in precision.compute; docs/formats.md has the others");
    fields.add_optional("scaling", scaling,
                        "scales of fp8; current: one for the tensor; row: one for each row; block: one for 128 "
                        "elements of a row, all from the values at hand; delayed: one for the tensor, from the largest "
                        "magnitude of the last steps; without it: current");
    fields.add_optional("history", history,
                        "with scaling: delayed, the number of last steps whose largest magnitude makes the scale; "
                        "without it: 1024",
                        configs::between(1, kMostHistory));
    fields.add("only", only,
               "modules whose linear layers have the format, named as in kernels.modules: blocks, mlp, blocks.0-3 or "
               "blocks.2.attention.qkv");
    fields.add("keep", keep,
               "modules that multiply in precision.compute although `only` names them; first and last mean the first "
               "and the last block");
  }
};

// Returns the width of a product that blocks of these formats do not divide: "341 inputs" or "240 outputs". Empty: they
// divide both.
std::string undivided_width(const kernels::ProductFormats& formats, const DeclaredLinear& product);

// Rules of the section alone. `has_blocks` is false for a model whose linear layers take no format.
void check(const LinearFormatsConfig& formats, bool has_blocks, configs::Checks& checks);

// Rules between the section and the modules that the model declares.
void check_modules(const LinearFormatsConfig& formats, const std::vector<DeclaredModule>& modules,
                   configs::Checks& checks);

}  // namespace strata::modules
