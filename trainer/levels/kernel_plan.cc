// SPDX-License-Identifier: MIT
#include "trainer/levels/kernel_plan.h"

#include <set>
#include <stdexcept>
#include <string_view>

#include "base/digest.h"
#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/joined.h"
#include "base/text/word_of.h"
#include "configs/document.h"
#include "configs/new_names.h"
#include "configs/reader.h"
#include "modules/config/kernel_selection.h"

namespace strata::trainer {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

std::string number(double value) { return formatted("%.4g", value); }

std::string yaml(const PlanRow& row) {
  std::string text = "  - {op: " + row.op + (row.key.empty() ? "" : ", key: " + row.key) +
                     ", shape: " + quoted(row.shape) + ", level: " + std::string(name(row.level)) +
                     ", uses: " + std::to_string(row.uses);
  if (row.forward) text += ", forward: " + number(*row.forward);
  if (row.backward) text += ", backward: " + number(*row.backward);
  if (row.forward) return text + ", error: " + number(row.error) + "}\n";
  return text + ", not_timed: " + quoted(row.not_timed) + "}\n";
}

// Returns the path of the configuration. Every key that is written and not overridden comes from it.
std::string configuration_file(const configs::Places& places) {
  for (const auto& [path, place] : places) {
    if (place.source && !place.source->is_override) return place.source->name;
  }
  return "CONFIG";
}

// Returns true if times must be measured again when this value changes, or may have to be. The shapes of a graph
// network follow from its graph and from the part of the graph that a rank has. Another type of optimizer has another
// op.
bool times_depend_on(const std::string& path, bool is_graph) {
  if (is_graph && (path.starts_with("data.") || path == "run.ranks")) return true;
  return path.starts_with("model.") || path.starts_with("layers.") || path == "micro_batch" ||
         path == "precision.compute" || path.starts_with("precision.linear.") ||
         (path.starts_with("sparsity.") && path != "sparsity.from_step") || path == "data.documents" ||
         path == "sharding.sequence" || path == "optimizer.type";
}

// Returns what sparsity changes in the ops of a step: in pruned layers an activation is an op of its own. Products keep
// their shapes, because op linear multiplies with the zeros.
std::string activations_after_pruned_products(const modules::SparsityConfig& sparsity,
                                              const std::vector<modules::DeclaredModule>& modules) {
  if (!sparsity.is_on()) return "";
  if (modules.empty()) throw std::logic_error("model_version needs the modules of a model with sparsity");
  std::multiset<std::string> shapes;
  for (const modules::DeclaredModule& module : modules) {
    if (!module.product || module.product->activation == kernels::Activation::none) continue;
    if (!sparsity.prunes(module.name)) continue;
    shapes.insert(std::to_string(module.product->outputs) + "x" + std::to_string(module.product->inputs));
  }
  return shapes.empty() ? "" : "activations after pruned products: " + joined(shapes, ", ") + "\n";
}

std::string quoted_for_shell(const std::string& word) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=./-:,";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

[[noreturn]] void refuse(const std::string& sentence, const LoadedConfig& loaded) {
  throw Error(ExitCode::configuration,
              "kernels.default: best " + sentence + "; make a plan with: " + command_for_plan(loaded));
}

std::string yaml(const FormatRow& row) {
  return "  - {modules: [" + joined(row.modules, ", ") + "], shape: " + quoted(row.shape) +
         ", layers: " + std::to_string(row.layers) + ", forward: " + number(row.forward) +
         ", backward: " + number(row.backward) + ", compute_forward: " + number(row.compute_forward) +
         ", compute_backward: " + number(row.compute_backward) + "}\n";
}

// Adds what the plan keeps, with the plan as its origin.
std::string keep_as_planned(const KernelPlan& plan, const configs::Place& place, LoadedConfig& loaded) {
  modules::LinearFormatsConfig& formats = loaded.config.precision.linear;
  if (plan.keep.empty()) return "";
  formats.keep.insert(formats.keep.end(), plan.keep.begin(), plan.keep.end());
  loaded.places["precision.linear.keep"] = place;
  return loaded.config.kernels.plan + ": " + joined(plan.keep, ", ") + " multiply in " +
         word_of(loaded.config.precision.compute) + ", because " + formats.text() + " was not faster there";
}

}  // namespace

KernelPlan read_kernel_plan(const std::string& path) {
  configs::ErrorList errors;
  const configs::NodePtr document = configs::load_document(path, errors);
  errors.throw_if_any();
  // A plan from before a level was renamed is read, so that it is refused as one of other kernels.
  const configs::NodePtr renamed = configs::with_new_names(document, {{"levels.global_norm", "levels.sum_of_squares"}});
  KernelPlan plan;
  configs::read_document(*renamed, plan, errors);
  errors.throw_if_any();
  return plan;
}

std::string command_for_plan(const LoadedConfig& loaded) {
  std::string command = "tools/strata plan " + configuration_file(loaded.places);
  std::set<std::string> used;
  for (const auto& [path, place] : loaded.places) {
    if (!place.source || !place.source->is_override) continue;
    // An override layers=[] has this place alone.
    const bool matters =
        times_depend_on(path, modules::is_graph(loaded.config.model)) || path == "layers" || path == "run.device";
    if (matters && used.insert(place.source->name).second) command += " " + quoted_for_shell(place.source->name);
  }
  return command;
}

std::string yaml(const KernelPlan& plan) {
  std::string text =
      "# The fastest levels that agreed, measured by tools/strata plan. Times are medians in microseconds, errors "
      "shares\n"
      "# of what is allowed. `levels` and `keep` may be edited; another device, LibTorch, model or version of the "
      "kernels\n"
      "# is refused.\n";
  text += "config: " + quoted(plan.config) + "\ndevice: " + quoted(plan.device) + "\ntorch: " + quoted(plan.torch) +
          "\nkernels: " + quoted(plan.kernels) + "\nmodel: " + quoted(plan.model) + "\nlevels:";
  modules::OpLevels levels = plan.levels;
  std::string lines, formats, rows;
  levels.each([&](const char* op, std::optional<kernels::Level>& level) {
    if (level) lines += std::string("  ") + op + ": " + std::string(name(*level)) + "\n";
  });
  for (const FormatRow& row : plan.formats) formats += yaml(row);
  for (const PlanRow& row : plan.measured) rows += yaml(row);
  // A key without a value is refused.
  text += lines.empty() ? " {}\n" : "\n" + lines;
  if (!formats.empty()) text += "keep: [" + joined(plan.keep, ", ") + "]\nformats:\n" + formats;
  return text + "measured:" + (rows.empty() ? " []\n" : "\n" + rows);
}

std::string model_version(TrainerConfig config, const std::vector<modules::DeclaredModule>& modules) {
  std::string text = activations_after_pruned_products(config.sparsity, modules);
  config.sparsity = {};
  for (const configs::Line& line : configs::list_values(configs::section_of(config), {})) {
    if (times_depend_on(line.path, modules::is_graph(config.model))) text += line.path + ": " + line.value + "\n";
  }
  return sha256(text).substr(0, 16);
}

std::string apply_kernel_plan(LoadedConfig& loaded, const PlanReader& reader) {
  modules::KernelsConfig& kernels = loaded.config.kernels;
  if (kernels.default_level) return "";
  if (kernels.plan.empty()) refuse("needs a measured plan and kernels.plan names none", loaded);
  const KernelPlan plan = read_kernel_plan(kernels.plan);
  const auto require = [&](const char* what, const std::string& measured, const std::string& here) {
    if (measured == here) return;
    refuse("cannot use " + kernels.plan + ": it was measured for " + what + " " + measured + ", this is " + here,
           loaded);
  };
  require("the device", plan.device, reader.device);
  require("LibTorch", plan.torch, reader.torch);
  require("kernels of version", plan.kernels, reader.kernels);
  require("a model of hash", plan.model, model_version(loaded.config, reader.modules));

  const auto source = std::make_shared<configs::Source>(configs::Source{.name = kernels.plan, .text = ""});
  const bool chooses_linear = !kernels.levels.linear;
  modules::OpLevels planned = plan.levels;
  std::vector<std::optional<kernels::Level>> chosen;
  planned.each([&](const char*, std::optional<kernels::Level>& level) { chosen.push_back(level); });
  auto next = chosen.begin();
  // Lines decide whether output layer and loss are one op. The plan's level of what they leave out is then of no use.
  const bool is_fused = kernels.levels.linear_cross_entropy.has_value();
  kernels.levels.each([&](const char* op, std::optional<kernels::Level>& level) {
    const std::optional<kernels::Level> best = *next++;
    const bool head_is_apart = &level == &kernels.levels.linear_cross_entropy && modules::has_line_for_head(kernels);
    const bool loss_is_fused = &level == &kernels.levels.cross_entropy && is_fused;
    if (level || !best || head_is_apart || loss_is_fused) return;
    level = best;
    loaded.places["kernels." + std::string(op)] = {source, 1, 1};
  });
  kernels.planned = true;
  return chooses_linear ? keep_as_planned(plan, {source, 1, 1}, loaded) : "";
}

void require_complete_plan(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules) {
  modules::KernelsConfig kernels = loaded.config.kernels;
  if (!kernels.planned) return;
  std::set<std::string_view> used;
  for (const modules::DeclaredModule& module : modules) used.insert(module.ops.begin(), module.ops.end());
  kernels.levels.each([&](const char* op, std::optional<kernels::Level>& level) {
    if (!level && used.contains(op)) refuse("cannot use " + kernels.plan + ": it has no level of " + op, loaded);
  });
  for (const std::string& name : loaded.config.precision.linear.keep) {
    const std::string problem = modules::problem_of_module(name, modules);
    if (!problem.empty()) refuse("cannot use " + kernels.plan + ": in its keep " + problem, loaded);
  }
}

}  // namespace strata::trainer
