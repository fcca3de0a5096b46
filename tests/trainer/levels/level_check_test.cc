// SPDX-License-Identifier: MIT
// A level that an op of the run does not have on the device is refused at the line that asks for it, and no other is.
#include "trainer/levels/level_check.h"

#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

constexpr int kModel = 5, kData = 6, kPrecision = 9, kKernels = 11;  // lines of the configuration

const std::string kGraphNetwork =
    "model: {type: graph_network, convolution: gat, features: 9, layers: 4, width: 64, classes: 7}";
const std::vector<ReplacedLine> kGraph = {{3, "batch: 1"},
                                          {4, "micro_batch: 1"},
                                          {kModel, kGraphNetwork},
                                          {kData, "data: {type: graph, file: a.npz}"},
                                          {13, "log: {every: 1}"}};
const std::vector<ReplacedLine> kVision = {
    {kModel,
     "model: {type: vision_transformer, layers: 4, image_size: 28, patch: 7, channels: 1, classes: 10, width: 64, "
     "heads: 4, stochastic_depth: 0.1}"},
    {kData, "data: {type: idx, train_images: a, train_labels: b, validation_images: c, validation_labels: d}"},
    {13, "log: {every: 1}"}};

// Not the GPU of a run, as where a configuration is only read.
const kernels::Target kAnyGpu = {c10::kCUDA};

kernels::Target gpu(const char* name, int capability) { return {c10::kCUDA, kernels::Gpu{name, capability}}; }
const kernels::Target kT4 = gpu("Tesla T4", 75), kA100 = gpu("NVIDIA A100-SXM4-80GB", 80),
                      kAda = gpu("NVIDIA GeForce RTX 4090", 89), kH100 = gpu("NVIDIA H100 80GB HBM3", 90),
                      kB200 = gpu("NVIDIA B200", 100);

// "" where nothing is refused.
std::string refusal(std::vector<ReplacedLine> lines, const std::string& kernels,
                    const kernels::Target& target = {c10::kCPU}, const std::vector<std::string>& overrides = {}) {
  lines.emplace_back(kPrecision, "precision: {compute: bfloat16, reduce: float32}");
  lines.emplace_back(kKernels, "kernels: " + kernels);
  try {
    const LoadedConfig loaded = parse_trainer_config("run.yaml", config_with(lines), overrides);
    check_levels(loaded, declared_model(loaded.config).modules, target);
    return "";
  } catch (const configs::ConfigErrors& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
}

TEST(LevelCheck, NamesALineWhoseOpNoModuleComputes) {
  const std::string message = refusal({}, "{default: aten, neighbor_aggregate: torchscript}");
  EXPECT_NE(message.find("run.yaml:11:26: kernels.neighbor_aggregate: no module that this line names computes "
                         "neighbor_aggregate; the model computes "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("attention"), std::string::npos) << message;
  // They are computed before or after the layers, by no module, or once a step.
  for (const std::string op : {"embedding", "cross_entropy", "linear_cross_entropy", "adamw", "sum_of_squares"}) {
    const std::string of_layer = refusal({}, "{default: aten, layers: [{only: 3, " + op + ": aten}]}");
    EXPECT_NE(
        of_layer.find("run.yaml:11:45: kernels.layers.0." + op + ": no module that this line names computes " + op),
        std::string::npos)
        << of_layer;
  }
  EXPECT_EQ(refusal({}, "{default: aten, layers: [{only: 3, linear: aten}], attention: torchscript}"), "");
  EXPECT_EQ(refusal(kGraph, "{default: aten, neighbor_aggregate: torchscript}"), "");
}

TEST(LevelCheck, NamesTheLineTheOpAndWhatIsThere) {
  const std::string gpu_code = " on cpu (this level is GPU code); levels there: aten, torchscript";
  EXPECT_EQ(first_line(refusal({}, "{linear: cuda}")),
            "run.yaml:11:11: kernels.linear: linear has no kernel at level cuda" + gpu_code + ", aot_inductor");
  EXPECT_EQ(first_line(refusal({}, "{default: aten, layers: [{only: 3, attention: triton}]}")),
            "run.yaml:11:45: kernels.layers.0.attention: attention has no kernel at level triton" + gpu_code);
  EXPECT_EQ(
      first_line(refusal({}, "{default: aten, modules: [{only: blocks.2.mlp, linear: cuda}]}")),
      "run.yaml:11:57: kernels.modules.0.linear: linear has no kernel at level cuda" + gpu_code + ", aot_inductor");
  EXPECT_EQ(refusal({}, "{default: aten}", {c10::kCPU}, {"kernels.adamw=cuda"}),
            "override 'kernels.adamw=cuda': kernels.adamw: adamw has no kernel at level cuda" + gpu_code +
                ", aot_inductor\n");
  EXPECT_EQ(first_line(refusal({}, "{default: aten, linear_cross_entropy: triton}", kAnyGpu)),
            "run.yaml:11:26: kernels.linear_cross_entropy: linear_cross_entropy has no kernel at level triton on cuda "
            "(its matrix products are calls into a library; only the loss would be a kernel); levels there: aten, "
            "torchscript, aot_inductor, cuda");
  EXPECT_NE(refusal({}, "{default: aot_inductor}").find("kernels.default: attention has no kernel"), std::string::npos);
  const std::string message = refusal(kGraph, "{default: aot_inductor}");
  EXPECT_NE(message.find("kernels.default: neighbor_aggregate has no kernel"), std::string::npos) << message;
}

TEST(LevelCheck, NamesTheGpuOfTheRunAndWhatToWrite) {
  EXPECT_EQ(first_line(refusal({}, "{default: aten, rms_norm: aot_inductor}", kA100)),
            "run.yaml:11:26: kernels.rms_norm: rms_norm at level aot_inductor runs on GPUs of compute capability 9.0 "
            "(H100, H200), and this NVIDIA A100-SXM4-80GB has 8.0; levels there: aten, torchscript, triton, cuda; "
            "write rms_norm: aten");
  EXPECT_EQ(first_line(refusal({}, "{default: aten, layers: [{only: 3, attention: triton}]}", kB200)),
            "run.yaml:11:45: kernels.layers.0.attention: attention at level triton runs on GPUs of compute capability "
            "9.0 (H100, H200), and this NVIDIA B200 has 10.0; levels there: aten, torchscript, cuda; write attention: "
            "aten");
  EXPECT_EQ(first_line(refusal({}, "{attention: cuda}", kT4)),
            "run.yaml:11:11: kernels.attention: attention at level cuda runs on GPUs of compute capability 8.0 or "
            "later, and this Tesla T4 has 7.5; levels there: aten, torchscript; write attention: aten");
  EXPECT_EQ(first_line(refusal({}, "{default: aten, linear_cross_entropy: triton}", kAda)),
            "run.yaml:11:26: kernels.linear_cross_entropy: linear_cross_entropy has no kernel at level triton on cuda "
            "(its matrix products are calls into a library; only the loss would be a kernel); levels there: aten, "
            "torchscript, cuda; write linear_cross_entropy: aten");
  EXPECT_EQ(first_line(refusal({}, "{default: aten, linear_cross_entropy: triton}", kH100)),
            first_line(refusal({}, "{default: aten, linear_cross_entropy: triton}", kAnyGpu)) +
                "; write linear_cross_entropy: aten");
  for (const char* level : {"aot_inductor", "triton", "cuda"}) {
    for (const auto& target : {kT4, kA100, kAda, kB200}) {
      const std::string message = refusal({}, std::string("{default: ") + level + "}", target);
      if (std::string_view(level) == "cuda" && target.gpu->capability >= 80) {
        EXPECT_EQ(message, "");
        continue;
      }
      EXPECT_NE(message.find("; levels there: aten, torchscript"), std::string::npos) << message;
      EXPECT_NE(message.find("; write default: aten"), std::string::npos) << message;
      EXPECT_NE(message.find(target.gpu->name), std::string::npos) << message;
      EXPECT_EQ(message.find("errors in the configuration"), std::string::npos) << message;
    }
    EXPECT_EQ(refusal({}, std::string("{default: ") + level + "}", kH100), "");
  }
  for (const auto& target : {kT4, kA100, kAda, kH100, kB200}) {
    for (const char* level : {"aten", "torchscript"}) {
      EXPECT_EQ(refusal({}, std::string("{default: ") + level + "}", target), "");
    }
  }
}

TEST(LevelCheck, NamesAnArchitectureThatIsNewerThanTheGpu) {
  EXPECT_EQ(first_line(refusal({}, "{default: aten, architecture: 80}", kT4)),
            "run.yaml:11:26: kernels.architecture: such code runs on GPUs of compute capability 8.0 or later, and this "
            "Tesla T4 has 7.5; remove this line");
  for (const auto& target : {kA100, kAda, kH100, kB200}) {
    EXPECT_EQ(refusal({}, "{default: aten, architecture: 80}", target), "");
  }
}

TEST(LevelCheck, NamesTheLineOfProductsInFp8ThatOtherGpusLack) {
  const std::vector<std::string> fp8 = {"precision.compute=bfloat16", "precision.linear.format=fp8"};
  for (const auto& target : {kA100, kAda, kH100, kB200}) {
    const std::string message = refusal({}, "{linear: cuda}", target, fp8);
    EXPECT_EQ(message.empty(), target.gpu->capability == 90) << message;
    EXPECT_EQ(refusal({}, "{linear: triton}", target, fp8), "") << "they are emulated";
    std::vector<std::string> blocks = fp8;
    blocks.push_back("precision.linear.scaling=block");
    EXPECT_EQ(refusal({}, "{linear: cuda}", target, blocks), "") << "these too";
  }
  EXPECT_EQ(first_line(refusal({}, "{linear: cuda}", kAda, fp8)),
            "run.yaml:11:11: kernels.linear: fp8 of precision.linear at level cuda runs on GPUs of compute capability "
            "9.0 (H100, H200), and this NVIDIA GeForce RTX 4090 has 8.9; write linear: aten, which emulates it");
}

// cudnn-frontend has these rules for GPUs that are not Hopper's.
TEST(LevelCheck, NamesWhatCudnnLacksOnOtherGpus) {
  const std::string no_backward = ", for which cuDNN has no backward; write attention: aten";
  for (const auto& target : {kA100, kAda, kH100, kB200}) {
    EXPECT_EQ(refusal({}, "{attention: cuda}", target), "");
    const std::string wide = refusal({}, "{attention: cuda}", target, {"model.head_width=256"});
    EXPECT_EQ(wide.empty(), target.gpu->capability == 90) << wide;
    const std::string documents = refusal({}, "{attention: cuda}", target, {"data.documents=separate"});
    EXPECT_EQ(documents.empty(), target.gpu->capability >= 90) << documents;
    const std::string alibi = refusal({}, "{attention: cuda}", target, {"model.alibi=true", "run.deterministic=true"});
    EXPECT_EQ(alibi.empty(), target.gpu->capability != 100) << alibi;
  }
  EXPECT_EQ(
      first_line(refusal({}, "{attention: cuda}", kAda, {"data.documents=separate"})),
      "run.yaml:11:11: kernels.attention: attention at level cuda does not take causal & documents with heads of 16 of "
      "layers 0-3, expected a pattern without documents on this NVIDIA GeForce RTX 4090" +
          no_backward);
  const std::string wide = refusal({}, "{attention: cuda}", kB200, {"model.head_width=256"});
  EXPECT_NE(wide.find("heads of 256 of layers 0-3, expected heads of at most 128 on this NVIDIA B200" + no_backward),
            std::string::npos)
      << wide;
}

TEST(LevelCheck, NamesTheLineTheLayersAndTheirPattern) {
  const std::vector<ReplacedLine> globals = {{14, "layers: [{only: 0-2 step 2, attention: causal | global(3)}]"}};
  const std::string expected =
      ", expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
      "prefix(n), or heads of 64 or 128; levels aten, torchscript, aot_inductor and triton take it";
  EXPECT_EQ(refusal(globals, "{default: aten}"), "");
  EXPECT_EQ(refusal(globals, "{attention: triton}", kAnyGpu), "");
  EXPECT_EQ(refusal(globals, "{default: aten, layers: [{only: 1-3 step 2, attention: cuda}]}", kAnyGpu), "");
  EXPECT_EQ(
      first_line(refusal(globals, "{attention: cuda}", kAnyGpu)),
      "run.yaml:11:11: kernels.attention: attention at level cuda does not take causal | global(3) of layers 0, 2" +
          expected);
  EXPECT_EQ(first_line(refusal(globals, "{default: aten, layers: [{only: 1-2, attention: cuda}]}", kAnyGpu)),
            "run.yaml:11:47: kernels.layers.0.attention: attention at level cuda does not take causal | global(3) of "
            "layer 2" +
                expected);
  const std::string message = refusal(globals, "{default: aten, modules: [{only: attention, attention: cuda}]}",
                                      kAnyGpu, {"model.attention=causal | window(3)"});
  EXPECT_EQ(first_line(message),
            "run.yaml:11:54: kernels.modules.0.attention: attention at level cuda does not take causal | global(3) of "
            "layers 0, 2" +
                expected);
}

TEST(LevelCheck, NamesThePatternThatALevelLacksForPartsOfSequences) {
  const std::vector<std::string> shared = {"sharding.sequence=2", "data.documents=separate"};
  EXPECT_EQ(refusal({}, "{attention: cuda}", kAnyGpu, {"sharding.sequence=2"}), "");
  EXPECT_EQ(refusal({}, "{attention: triton}", kAnyGpu, shared), "");
  EXPECT_EQ(first_line(refusal({}, "{attention: cuda}", kAnyGpu, shared)),
            "run.yaml:11:11: kernels.attention: attention at level cuda does not take causal & documents of layers "
            "0-3, with sharding.sequence above 1: expected a pattern without documents; levels aten, torchscript and "
            "triton take it");
  EXPECT_EQ(first_line(refusal({}, "{attention: aot_inductor}", kAnyGpu, {"sharding.sequence=2"})),
            "run.yaml:11:11: kernels.attention: attention at level aot_inductor does not take causal of layers 0-3, "
            "with sharding.sequence above 1: expected whole rows, which its packages are compiled for; levels aten, "
            "torchscript and triton take it");
}

TEST(LevelCheck, NamesTheTermsThatALevelLacks) {
  const std::vector<std::string> terms = {"model.alibi=true", "model.softcap=50", "model.sinks=true"};
  for (const char* level : {"aten", "torchscript", "aot_inductor", "triton"}) {
    EXPECT_EQ(refusal({}, std::string("{attention: ") + level + "}", kAnyGpu, terms), "");
  }
  EXPECT_EQ(
      first_line(refusal({}, "{default: aten, layers: [{only: 1-2, attention: cuda}]}", kAnyGpu, terms)),
      "run.yaml:11:47: kernels.layers.0.attention: attention at level cuda does not take alibi, softcap 50, sinks "
      "of layers 1-2, expected alibi or a softcap, and not both; levels aten, torchscript, aot_inductor and triton "
      "take it");
  EXPECT_EQ(first_line(refusal({}, "{attention: cuda}", kAnyGpu, {"model.sinks=true", "data.documents=separate"})),
            "run.yaml:11:11: kernels.attention: attention at level cuda does not take sinks of layers 0-3, expected a "
            "pattern without documents with sinks; levels aten, torchscript, aot_inductor and triton take it");
  EXPECT_EQ(refusal({}, "{attention: cuda}", kAnyGpu, {"model.softcap=30"}), "");
}

TEST(LevelCheck, NamesTheHeadsThatALevelDoesNotTake) {
  const std::string in_float32 = "precision.compute=float32";
  for (const char* level : {"aten", "torchscript", "aot_inductor", "triton"}) {
    EXPECT_EQ(refusal({}, std::string("{attention: ") + level + "}", kAnyGpu, {in_float32}), "");
  }
  const std::string expected =
      "expected bfloat16 or float16; levels aten, torchscript, aot_inductor and triton take float32";
  for (const auto& model : {std::vector<ReplacedLine>(), kVision}) {
    EXPECT_EQ(first_line(refusal(model, "{default: cuda}", kAnyGpu, {in_float32})),
              "run.yaml:11:11: kernels.default: attention at level cuda does not take heads of 16 in float32 of layers "
              "0-3, " +
                  expected);
  }
  EXPECT_EQ(
      first_line(refusal({}, "{attention: cuda}", kAnyGpu, {"precision.modules=[{only: blocks.2, compute: float32}]"})),
      "run.yaml:11:11: kernels.attention: attention at level cuda does not take heads of 16 in float32 of layer "
      "2, " +
          expected);
  EXPECT_EQ(first_line(refusal({}, "{default: aten, layers: [{only: 1-2, attention: cuda}]}", kAnyGpu,
                               {"model.head_width=12"})),
            "run.yaml:11:47: kernels.layers.0.attention: attention at level cuda does not take heads of 12 in bfloat16 "
            "of layers 1-2, expected heads of a multiple of 8 up to 256; levels aten and torchscript take all widths");
}

TEST(LevelCheck, AddsDocumentsToThePatternOfEveryLayer) {
  const std::vector<ReplacedLine> windows = {{14, "layers: [{only: 3, attention: 'causal & dilated(4, 2)'}]"}};
  const std::string documents = "data.documents=separate";
  for (const char* level : {"aten", "torchscript", "aot_inductor", "triton"}) {
    EXPECT_EQ(refusal(windows, std::string("{attention: ") + level + "}", kAnyGpu, {documents}), "");
  }
  EXPECT_EQ(
      first_line(refusal(windows, "{default: cuda}", kAnyGpu, {documents})),
      "run.yaml:11:11: kernels.default: attention at level cuda does not take causal & dilated(4, 2) & documents "
      "of layer 3, expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal "
      "| prefix(n), or heads of 64 or 128; levels aten, torchscript, aot_inductor and triton take it");
  EXPECT_EQ(refusal(windows, "{attention: cuda}", kAnyGpu, {documents, "model.head_width=64"}), "");
}

TEST(LevelCheck, TellsEveryLineOnce) {
  const std::string both = refusal({}, "{default: triton, rms_norm: cuda}");
  EXPECT_NE(both.find("run.yaml:11:11: kernels.default: "), std::string::npos) << both;
  EXPECT_NE(both.find("run.yaml:11:28: kernels.rms_norm: "), std::string::npos) << both;
  EXPECT_TRUE(both.ends_with("2 errors in the configuration\n")) << both;
}

TEST(LevelCheck, LetsPassWhatIsThereOrNotComputed) {
  for (const auto& model : {std::vector<ReplacedLine>(), kVision, kGraph}) {
    for (const char* level : {"aten", "torchscript"}) {
      EXPECT_EQ(refusal(model, std::string("{default: ") + level + "}"), "");
    }
    for (const char* level : {"aten", "torchscript", "triton", "cuda"}) {
      EXPECT_EQ(refusal(model, std::string("{default: ") + level + "}", kAnyGpu), "");
    }
  }
  EXPECT_EQ(refusal({}, "{default: aot_inductor, attention: aten}"), "");
  EXPECT_EQ(refusal({}, "{default: aot_inductor}", kAnyGpu), "");
  EXPECT_EQ(refusal({}, "{attention: cuda, layers: [{only: 0-3, attention: aten}]}"), "");
  // Modules win over layers: the level of none of them is asked for by the others.
  EXPECT_EQ(refusal({}, "{layers: [{only: 0-3, attention: cuda}], modules: [{only: attention, attention: aten}]}"), "");
  EXPECT_EQ(refusal({}, "{linear: cuda, modules: [{only: blocks, linear: aten}, {only: head, linear: aten}]}"), "");
  EXPECT_NE(refusal({}, "{linear: cuda, modules: [{only: blocks, linear: aten}]}"), "") << "there is still the head";
}

}  // namespace
}  // namespace strata::trainer
