// SPDX-License-Identifier: MIT
// bench_kernels: checks every level of every op at full size, then times the levels that passed.
#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/run_program.h"
#include "kernels/op_proofs.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/product_sums.h"
#include "tools/bench/kernels/library_proof.h"
#include "tools/bench/kernels/measurement.h"
#include "tools/bench/kernels/parsed_shape.h"
#include "tools/bench/kernels/report.h"
#include "tools/programs.h"
#include "trainer/config/load_config.h"
#include "trainer/config/scalar_type.h"
#include "trainer/prediction/trace_step.h"

namespace strata::tools {
namespace {

struct Options {
  std::vector<std::string> ops, levels, dtypes, shapes, overrides;
  std::string config, json, picture, device, library;
};

bool wanted(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the shapes that are asked for by name, and says what they are, or by text. Each must be a shape of a wanted
// op. Without a configuration a text may have any sizes, if --op names its op.
std::vector<kernels::OpShape> asked_for(const Options& options, const std::vector<kernels::OpShape>& common) {
  std::vector<kernels::OpShape> found;
  std::set<std::string> known;
  std::string names;
  for (const kernels::OpProof& proof : kernels::op_proofs()) {
    for (const auto& [name, shape] : proof.named_shapes) {
      names += ", " + name;
      if (!wanted(options.ops, shape.op()) || !std::ranges::count(options.shapes, name)) continue;
      std::printf("%s: %s %s\n", name.c_str(), std::string(shape.op()).c_str(), shape.text().c_str());
      known.insert(name);
      found.push_back(shape);
    }
  }
  for (const kernels::OpShape& shape : common) {
    if (!wanted(options.ops, shape.op()) || !std::ranges::count(options.shapes, shape.text())) continue;
    known.insert(shape.text());
    found.push_back(shape);
  }
  for (const std::string& shape : options.shapes) {
    if (known.contains(shape)) continue;
    const size_t before = found.size();
    for (const std::string& op : options.config.empty() ? options.ops : std::vector<std::string>{}) {
      if (const std::optional<kernels::OpShape> parsed = parsed_shape(op, shape)) found.push_back(*parsed);
    }
    if (found.size() > before) continue;
    throw Error(ExitCode::configuration,
                "--shape: expected the text of a shape as it is printed without --shape, with any sizes, or a name (" +
                    names.substr(2) + "), of an op that --op names; got " + shape);
  }
  return found;
}

std::vector<at::ScalarType> types_of(std::vector<std::string> names) {
  if (names.empty()) names = {"fp32", "bf16", "fp16"};
  std::vector<at::ScalarType> types;
  for (const std::string& name : names) types.push_back(dtype_of(name));
  return types;
}

ExitCode bench(Options options) {
  kernels::accumulate_products_in_fp32();
  const at::Device device(options.device.empty() ? (at::hasCUDA() ? "cuda:0" : "cpu") : options.device);
  std::vector<kernels::OpShape> shapes;
  std::vector<std::string> dtypes = options.dtypes;
  if (options.config.empty()) {
    for (const kernels::OpProof& proof : kernels::op_proofs()) {
      const std::vector<kernels::OpShape>& common = device.is_cuda() ? proof.gpu_shapes : proof.cpu_shapes;
      shapes.insert(shapes.end(), common.begin(), common.end());
    }
  } else {
    const trainer::TrainerConfig config = trainer::load_trainer_config(options.config, options.overrides).config;
    for (const trainer::UsedShape& used : trainer::used_shapes(config, device.type())) shapes.push_back(used.shape);
    if (dtypes.empty()) dtypes = {short_name(trainer::scalar_type(config.precision.compute))};
  }
  if (dtypes.empty()) dtypes = {"bf16"};
  if (!options.shapes.empty()) shapes = asked_for(options, shapes);

  Origin origin{kernels::device_name(device), kernels::torch_version(), kernels::kernel_version(), {}};
  // Output files must be writable before anything is measured.
  append_result(options.json, "");
  if (!options.picture.empty()) std::ofstream(options.picture, std::ios::trunc);
  append_result(options.picture, "");
  if (!options.library.empty()) {
    const auto ops = prove_library(options.library, options.ops, types_of(options.dtypes), device);
    options.ops.assign(ops.begin(), ops.end());
  }
  std::vector<Row> rows;
  bool all_agreed = true;
  for (const std::string& name : dtypes) {
    const at::ScalarType dtype = dtype_of(name);
    origin.roofline = measure_roofline(device, dtype);
    std::printf("%s, torch %s: copy %.0f GB/s, %s GEMM %.2f TFLOP/s\n", origin.device.c_str(), origin.torch.c_str(),
                1e-9 * origin.roofline.bytes_per_second, name.c_str(), 1e-12 * origin.roofline.flops_per_second);
    for (const kernels::OpShape& shape : shapes) {
      if (!wanted(options.ops, shape.op())) continue;
      std::vector<kernels::Level> levels = levels_of(shape.op(), device);
      std::erase_if(levels, [&](kernels::Level level) { return !wanted(options.levels, kernels::name(level)); });
      if (!options.library.empty()) levels.push_back(kernels::kLibraryLevel);
      measure(shape, dtype, device, levels, [&](const Measurement& measurement) {
        all_agreed = all_agreed && measurement.timing;
        for (const Row& row : rows_of(measurement, origin.roofline)) {
          std::printf("%s\n", line_of(row).c_str());
          std::fflush(stdout);
          append_result(options.json, json_lines({row}, origin));
          rows.push_back(row);
        }
      });
    }
  }
  // Rows with the levels of one op, shape and direction are placed next to each other.
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.dtype, a.op, a.shape, b.direction) < std::tie(b.dtype, b.op, b.shape, a.direction);
  });
  append_result(options.picture, picture(rows, origin));
  if (rows.empty())
    throw Error(ExitCode::configuration, "nothing to time: no op and level of that name is there on " + origin.device);
  return all_agreed ? ExitCode::done : ExitCode::numerics;
}

}  // namespace
}  // namespace strata::tools

int strata::programs::bench_kernels_main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("Proves every level of every op at full size, then times those that agreed.", "bench kernels");
  tools::Options options;
  app.add_option("--op", options.ops, "only these ops");
  app.add_option("--level", options.levels, "only these levels");
  app.add_option(
      "--shape", options.shapes,
      "only these shapes: texts as they are printed, with any sizes if --op is given, or small or realistic");
  app.add_option("--dtype", options.dtypes, "fp32, bf16, fp16; otherwise bf16, or as in the configuration");
  app.add_option("--library", options.library,
                 "a shared library with kernels of your own (kernels/candidate.h), which are proved and then timed "
                 "beside the levels; its code runs with all your rights");
  app.add_option("--config", options.config, "the shapes of this configuration instead of the common ones");
  app.add_option("overrides", options.overrides, "a.b.c=value, for --config");
  app.add_option("--device", options.device, "cpu or cuda:0; otherwise the GPU where there is one");
  app.add_option("--json", options.json, "file to which a line of JSON a row is appended");
  app.add_option("--svg", options.picture, "file for a picture");
  return run_program(app, argc, argv, [&] { return tools::bench(options); });
}
