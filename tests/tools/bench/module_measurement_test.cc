// SPDX-License-Identifier: MIT
// Each module agrees with plain PyTorch at each level that CPUs have, and what computes something else is not timed.
#include "tools/bench/module_measurement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"

namespace strata::tools {
namespace {

using kernels::Level;

ModuleWorkload workload(const std::string& name, at::ScalarType dtype = at::kFloat) {
  return {module_case(name, "configs", at::kCPU), dtype, at::kCPU};
}

TEST(ModuleMeasurement, LevelsAgreeWithThePlainCode) {
  for (const std::string& name : module_names()) {
    SCOPED_TRACE(name);
    const ModuleWorkload made = workload(name);
    const ModuleMeasurement measured = made.measure(Level::torchscript);
    EXPECT_TRUE(measured.verdict.agreed) << measured.verdict.words;
    ASSERT_TRUE(measured.times);
    EXPECT_GE(measured.times->forward.size(), 7u);
    EXPECT_GE(measured.times->backward.size(), 7u);
    EXPECT_GT(measured.times->peak_bytes, 0);
    EXPECT_FALSE(measured.levels.empty());
    for (const auto& [op, level] : measured.levels) EXPECT_EQ(level, "torchscript") << op;
  }
}

TEST(ModuleMeasurement, SizesForGpusAreThoseOfAConfiguration) {
  for (const std::string& name : module_names()) {
    try {
      module_case(name, "configs", at::Device(at::kCUDA, 0));
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    } catch (const c10::Error&) {
      // Without a GPU no tensor of a mask or a graph can be made there. The configuration was read before.
    }
  }
}

TEST(ModuleMeasurement, EachLevelRunsItsOwnCode) {
  const ModuleWorkload made = workload("linear_activation");
  const ModuleMeasurement aten = made.measure(Level::aten), torchscript = made.measure(Level::torchscript);
  ASSERT_TRUE(aten.times && torchscript.times);
  // TorchScript stores each step of the activation for its backward.
  EXPECT_GT(torchscript.times->peak_bytes, 2 * aten.times->peak_bytes);
}

TEST(ModuleMeasurement, OfTypesOf16Bits) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const ModuleMeasurement measured = workload("transformer_block", dtype).measure(Level::aten);
    EXPECT_TRUE(measured.times) << measured.verdict.words;
  }
}

TEST(ModuleMeasurement, WhatComputesSomethingElseIsNotTimed) {
  const ModuleWorkload made = workload("norm");
  const Parameters& parameters = made.parameters();
  const auto right = [&](const Tensor& x) { return made.module().naive(parameters, x); };
  EXPECT_TRUE(made.measure(right, parameters).times);
  const struct {
    const char* what;
    ModuleCase::Function run;
  } mutants[] = {{"the output", [&](const Tensor& x) { return right(x) * 1.0001; }},
                 {"the output", [&](const Tensor& x) { return right(x) - parameters.at("bias"); }},
                 {"the gradient of the input",
                  [&](const Tensor& x) {
                    const Tensor sum = at::sum(x) * 1e-3;
                    return right(x) + (sum - sum.detach());  // the same output
                  }},
                 {"the gradient of weight", [&](const Tensor& x) {
                    const Tensor sum = at::sum(parameters.at("weight")) * 1e-3;
                    return right(x) + (sum - sum.detach());
                  }}};
  for (const auto& [what, run] : mutants) {
    const ModuleMeasurement measured = made.measure(run, parameters);
    EXPECT_FALSE(measured.times);
    EXPECT_FALSE(measured.is_absent);
    EXPECT_NE(measured.verdict.words.find(what), std::string::npos) << measured.verdict.words;
  }
}

TEST(ModuleMeasurement, LevelsThatTheDeviceLacksAreAbsent) {
  const ModuleMeasurement measured = workload("norm").measure(Level::cuda);
  EXPECT_TRUE(measured.is_absent);
  EXPECT_FALSE(measured.times);
  EXPECT_NE(measured.verdict.words.find("layer_norm has no kernel at level cuda on cpu"), std::string::npos);
}

TEST(ModuleMeasurement, UnknownModulesAreRefusedWithAllNames) {
  try {
    workload("softmax");
    FAIL() << "softmax is no module";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    for (const std::string& name : module_names()) EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::tools
