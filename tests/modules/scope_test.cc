// SPDX-License-Identifier: MIT
// A scope tells its source the names, the groups and the levels of what a constructor asks for.
#include "modules/scope.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "modules/model_sources.h"
#include "tests/modules/kernels_lines.h"

namespace strata::modules {
namespace {

using kernels::Level;

// Records the calls of a scope to its source.
class Listener : public ModelSource {
 public:
  Tensor parameter(const Group& group, const Parameter& parameter) override {
    lines.push_back(group.name + " " + std::to_string(static_cast<int>(group.role)) + " " + parameter.name);
    return {};
  }
  void op(const Group& group, const std::string& module, std::string_view op, Level level) override {
    lines.push_back(group.name + " " + module + " " + std::string(op) + " " + std::string(kernels::name(level)));
  }
  void product(const Group&, const std::string& module, const DeclaredLinear& product) override {
    lines.push_back(module + " " + std::to_string(product.outputs) + "x" + std::to_string(product.inputs));
  }
  std::vector<std::string> lines;
};

TEST(Scope, HasANameAndAGroup) {
  Listener listener;
  KernelsConfig kernels = mixed();
  add_line(kernels, "head", &OpLevels::linear, Level::torchscript);
  const Scope model(listener, kernels);
  model.parameter({"alone", {1}});
  (model / "norm").parameter({"weight", {1}});
  (model.layer("blocks.2") / "" / "mlp" / "up").parameter({"weight", {1}});
  model.head("pooling").parameter({"weight", {1}});
  EXPECT_EQ((model.layer("blocks.2") / "norm1").level("rms_norm"), Level::cuda);
  EXPECT_EQ(model.head("head").level("linear"), Level::torchscript);
  EXPECT_EQ(model.level("attention"), Level::torchscript);
  EXPECT_EQ(listener.lines,
            (std::vector<std::string>{"root 0 alone", "root 0 norm.weight", "blocks.2 1 blocks.2.mlp.up.weight",
                                      "head 2 pooling.weight", "blocks.2 blocks.2.norm1 rms_norm cuda",
                                      "head head linear torchscript", "root  attention torchscript"}));
  EXPECT_THROW(model.level("swiglu"), Error) << "that is no key of `kernels:`";
}

TEST(Scope, KnowsTheFormatOfAProduct) {
  Listener listener;
  const KernelsConfig kernels;
  const LinearFormatsConfig formats{.format = LinearFormat::nvfp4, .only = "mlp"};
  const Scope block = Scope(listener, kernels, &formats).layer("blocks.2");
  EXPECT_EQ((block / "mlp" / "up").product_formats({48, 16})->values.element, kernels::Element::e2m1);
  EXPECT_FALSE((block / "attention" / "qkv").product_formats({32, 16}));
  EXPECT_FALSE(Scope(listener, kernels).product_formats({8, 4}));
  EXPECT_EQ(listener.lines,
            (std::vector<std::string>{"blocks.2.mlp.up 48x16", "blocks.2.attention.qkv 32x16", " 8x4"}));
}

TEST(BindingSource, RefusesAnotherShape) {
  BindingSource source([](const std::string&) { return Tensor(); });
  const KernelsConfig kernels;
  EXPECT_ANY_THROW(Scope(source, kernels).parameter({"weight", {3}}));
}

}  // namespace
}  // namespace strata::modules
