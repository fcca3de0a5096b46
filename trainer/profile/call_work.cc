// SPDX-License-Identifier: MIT
#include "trainer/profile/call_work.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/adamw/adamw_shape.h"
#include "modules/config/parameter_table.h"
#include "trainer/levels/used_shapes.h"
#include "trainer/memory/slot_plan.h"

namespace strata::trainer::profile {
namespace {

using kernels::Work;
using modules::ParameterGroup;

// Returns the bytes of an element that ops read and write, inside or outside of layers: the mean over the weights
// there.
double element_bytes(const std::vector<ParameterGroup>& table, const PrecisionConfig& precision, bool in_layers) {
  double bytes = 0, elements = 0;
  for (const ParameterGroup& group : table) {
    if ((group.role == modules::Role::layer) != in_layers) continue;
    bytes += static_cast<double>(bytes_of(precision.compute_of(group.name)) * group.elements());
    elements += static_cast<double>(group.elements());
  }
  return elements > 0 ? bytes / elements : static_cast<double>(bytes_of(precision.compute));
}

bool is_of_optimizer(const std::string& op) { return op == "adamw" || op == "global_norm"; }

using Kind = std::tuple<std::string, bool, bool>;  // op, in a layer, backward

class Means {
 public:
  void add(const Kind& kind, const Work& work, int64_t uses) {
    Sum& sum = sums_[kind];
    sum.bytes += work.bytes * static_cast<double>(uses);
    sum.flops += work.flops * static_cast<double>(uses);
    sum.uses += uses;
  }
  LeastWork of(const OpKey& key, int64_t calls) const {
    const auto found = sums_.find({key.op, key.layer >= 0, key.backward});
    if (found == sums_.end() || found->second.uses == 0) return {};
    const Sum& sum = found->second;
    // These ops process all parameters once per step, in as many calls as the groups have parts.
    const double share = is_of_optimizer(key.op) ? 1 : static_cast<double>(calls) / static_cast<double>(sum.uses);
    return {sum.bytes * share, sum.flops * share};
  }

 private:
  struct Sum {
    double bytes = 0, flops = 0;
    int64_t uses = 0;
  };
  std::map<Kind, Sum> sums_;
};

}  // namespace

WorkOfCalls work_of_calls(const TrainerConfig& config, const GraphSizes& graph) {
  Means means;
  const auto table = std::visit([](const auto& model) { return modules::parameter_table(model); }, config.model.type);
  for (const UsedShape& used : used_shapes(config, graph)) {
    const std::string op(used.shape.op());
    if (is_of_optimizer(op)) continue;
    for (const auto& [in_layer, uses] : {std::pair{true, used.in_layers}, std::pair{false, used.outside}}) {
      const double element = element_bytes(table, config.precision, in_layer);
      means.add({op, in_layer, false}, used.shape.forward_work(element), uses);
      means.add({op, in_layer, true}, used.shape.backward_work(element), uses);
    }
  }
  const BufferRules rules = buffer_rules(config);
  const auto shards = static_cast<double>(rules.shards());
  for (const ParameterGroup& group : table) {
    const double elements = static_cast<double>(group.elements()) / shards;
    const auto gradient = static_cast<double>(bytes_of(gradient_type(rules, group)));
    const FloatType compute = config.precision.compute_of(group.name);
    const double compute_copy = compute == FloatType::float32 ? 0 : static_cast<double>(bytes_of(compute));
    means.add({"adamw", false, false}, kernels::adamw_work(elements, gradient, compute_copy), 1);
    means.add({"global_norm", false, false}, {elements * gradient, 0}, 1);
  }
  return [means](const OpKey& key, int64_t calls) { return means.of(key, calls); };
}

}  // namespace strata::trainer::profile
