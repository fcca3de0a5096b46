// SPDX-License-Identifier: MIT
// validate CONFIG [a.b.c=value ...]: prints every value with its origin, and the parameters, FLOPs and memory of a run.
// validate --svg FOLDER CONFIG [a.b.c=value ...]: also writes a picture of each distinct pattern of attention.
// validate --memory-timeline FILE CONFIG [a.b.c=value ...]: also writes a picture of the memory over a step.
// validate --aot-shapes CONFIG [a.b.c=value ...]: prints the calls that tools/aot_inductor/make_for_config.py reads.
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/end_process.h"
#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/grouped_digits.h"
#include "base/text/printable.h"
#include "kernels/runtime/aot_inductor_package.h"
#include "modules/config/level_report.h"
#include "modules/config/model_config.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/load_config.h"
#include "trainer/config/scalar_type.h"
#include "trainer/config/seen_targets.h"
#include "trainer/layout/coding.h"
#include "trainer/levels/level_check.h"
#include "trainer/levels/pattern_report.h"
#include "trainer/levels/sparsity_report.h"
#include "trainer/levels/untimed_formats.h"
#include "trainer/prediction/memory_timeline.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

void print_memory(const RunConfig& run, const std::string& table) {
  using sharding::DeviceSetting;
  const DeviceSetting setting = run.device;
  const char* const devices = setting == DeviceSetting::cpu ? "CPUs"
                              : setting == DeviceSetting::cuda
                                  ? "GPUs"
                                  : "GPUs, which run.device auto takes where there are any";
  std::printf("\nbytes per rank on %lld rank%s, on %s:\n%s", static_cast<long long>(run.ranks),
              run.ranks == 1 ? "" : "s", devices, table.c_str());
}

// The documents of a run, and what FLOPs count because of them. Nothing is said where samples are no packed documents.
struct PackedDocuments {
  modules::DocumentLengths lengths;
  std::string note;
};

PackedDocuments packed_documents(const TrainerConfig& config) {
  if (documents_of(config.data) == DocumentUse::joined) return {};
  try {
    modules::DocumentLengths lengths = document_lengths(*make_task(config));
    const std::string samples =
        grouped_digits(static_cast<int64_t>(lengths.size())) + (lengths.size() == 1 ? " sample" : " samples");
    return {std::move(lengths), "; attention within the documents of " + samples};
  } catch (const Error& error) {
    return {{}, "; each sample counts as one document, because the data cannot be read: " + printable(error.what())};
  }
}

void print_sizes(const TrainerConfig& config, const auto& model) {
  const std::vector<modules::ParameterGroup> groups = declared_groups(config.model);
  std::printf("\nparameters: %s\n", grouped_digits(modules::parameter_count(groups)).c_str());
  const PackedDocuments documents = packed_documents(config);
  const double flops = modules::flops_per_item(config.model, groups, documents.lengths);
  const std::string item(model.kItem);
  const std::string digits = flops < 9e18 ? grouped_digits(static_cast<int64_t>(flops)) : "above 9e18";
  std::printf("FLOPs per %s, forward and backward: %.4g (%s)%s\n", item.c_str(), flops, digits.c_str(),
              documents.note.c_str());
  if (shares_samples(config.model, config.data)) {
    std::printf("samples per step: the whole graph, spread over %lld rank%s\n",
                static_cast<long long>(config.run.ranks), config.run.ranks == 1 ? "" : "s");
  } else {
    const int64_t shared_by = config.sharding.sequence;
    const std::string groups = shared_by == 1 ? "ranks" : "groups of " + std::to_string(shared_by) + " ranks";
    std::printf(
        "samples per step: %lld = %lld micro-batches x %lld samples x %lld %s, of %lld %s\n",
        static_cast<long long>(config.batch), static_cast<long long>(config.micro_batches()),
        static_cast<long long>(config.micro_batch), static_cast<long long>(config.sample_groups()), groups.c_str(),
        static_cast<long long>(model.items_per_sample()),
        ((labels_whole_graphs(config.data) ? "graph" : item) + (model.items_per_sample() == 1 ? "" : "s")).c_str());
  }
  const std::string patterns = pattern_report(attention_of_run(config), config.kernels);
  if (!patterns.empty()) std::printf("\n%s", patterns.c_str());
  const std::vector<modules::DeclaredModule> declared = declared_model(config).modules;
  for (const std::string& table :
       {modules::format_table(config.kernels, config.precision.linear, declared), sparsity_report(config, declared)}) {
    if (!table.empty()) std::printf("\n%s", table.c_str());
  }
  const std::string coding = coding_report(buffer_rules(config), declared_model(config).groups);
  if (!coding.empty()) std::printf("\n%s", coding.c_str());
  print_memory(config.run, PeakMemory(config).table(trace_step_without_data(config)));
}

void print_values(const LoadedConfig& loaded) {
  const std::vector<configs::Line> lines = loaded.lines();
  size_t path_width = 0, value_width = 0;
  for (const configs::Line& line : lines) {
    path_width = std::max(path_width, line.path.size());
    value_width = std::max(value_width, line.value.size());
  }
  for (const configs::Line& line : lines) {
    std::printf("%-*s  %-*s  %s\n", static_cast<int>(path_width), line.path.c_str(), static_cast<int>(value_width),
                line.value.c_str(), line.origin.c_str());
  }
}

// Prints a line for each op, dtype and shape that a run calls: the op's key of `kernels:`, the op, the dtype and the
// shape, with tabs between. Both ways to compute head and loss are printed, and each op in precision.compute too,
// because a plan needs them. If training samples neighbors, the ops of an evaluation are printed too, because it
// computes the whole graph.
void print_calls(TrainerConfig config) {
  const c10::DeviceType device = device_of_trace(config.run.device);
  std::vector<std::vector<UsedShape>> ways = shapes_by_head(config, device);
  if (!fan_outs(config.data).empty()) {
    config.data = with_all_neighbors(config.data);
    ways.push_back(used_shapes(config, device));
  }
  std::set<std::string> lines;
  for (const std::vector<UsedShape>& way : ways) {
    for (const UsedShape& used : way) {
      std::set<c10::ScalarType> dtypes = used.dtypes;
      dtypes.insert(scalar_type(config.precision.compute));
      for (const c10::ScalarType dtype : dtypes) {
        lines.insert(std::string(used.shape.key()) + '\t' + std::string(used.shape.op()) + '\t' +
                     std::string(kernels::package_dtype_name(dtype)) + '\t' + used.shape.text() + '\n');
      }
    }
  }
  for (const std::string& line : lines) std::fputs(line.c_str(), stdout);
}

void write_timeline(const TrainerConfig& config, const std::string& path) {
  const std::unique_ptr<Task> task = make_task_without_data(config);
  if (!task) {
    throw Error(
        ExitCode::configuration,
        "--memory-timeline: expected a run whose sizes are known before its data are read; got a graph of a file");
  }
  std::vector<kernels::TracedBlock> blocks;
  const StepTrace step = trace_step(config, *task, /*rank=*/0, /*calls=*/nullptr, &blocks);
  replace_file(path, memory_timeline(PeakMemory(config).lasting(step), blocks));
  std::printf("memory over a step: %s\n", path.c_str());
}

// Removes an option and its value from the words. Returns the value, which is empty if the option is not there.
std::string taken(std::vector<std::string>& words, const std::string& option) {
  const auto at = std::ranges::find(words, option);
  if (at == words.end()) return "";
  if (at + 1 == words.end() || at[1].empty()) {
    throw Error(ExitCode::configuration, "validate: expected a value after " + option);
  }
  std::string value = at[1];
  words.erase(at, at + 2);
  return value;
}

void run(std::vector<std::string> words) {
  const bool only_calls = !words.empty() && words[0] == "--aot-shapes";
  if (only_calls) words.erase(words.begin());
  const std::string pictures = taken(words, "--svg"), timeline = taken(words, "--memory-timeline");
  if (words.empty()) throw Error(ExitCode::configuration, "validate: expected a configuration");
  const LoadedConfig loaded = load_run_config(words[0], {words.begin() + 1, words.end()});
  const TrainerConfig& config = loaded.config;
  if (only_calls) {
    print_calls(config);
    return;
  }
  const std::vector<modules::DeclaredModule> declared = declared_model(config).modules;
  check_levels(loaded, declared, {device_of_trace(config.run.device)});
  std::vector<std::string> paths;
  if (!pictures.empty()) paths = write_pattern_pictures(config.model, config.data, pictures);
  print_values(loaded);
  std::visit([&](const auto& model) { print_sizes(config, model); }, config.model.type);
  for (const std::string& path : paths) std::printf("picture of a pattern: %s\n", path.c_str());
  if (!timeline.empty()) write_timeline(config, timeline);
  const std::string seen = seen_targets(config);
  if (!seen.empty()) std::printf("\nwarning: tools/strata train refuses this configuration:\n%s", seen.c_str());
  const std::string untimed = untimed_formats(loaded, declared);
  if (!untimed.empty()) std::printf("\nwarning: %s\n", untimed.c_str());
  const std::string unreached = unreached_scaling(config.model);
  if (!unreached.empty()) std::printf("\nwarning: %s\n", unreached.c_str());
}

int run_command(const std::vector<std::string>& words) {
  try {
    run(words);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(error.code());
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "validate: %s\n", printable_lines(error.what_without_backtrace()).c_str());
    return static_cast<int>(ExitCode::internal);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "validate: %s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace
}  // namespace strata::trainer

int main(int argc, char** argv) { strata::end_process(strata::trainer::run_command({argv + 1, argv + argc})); }
