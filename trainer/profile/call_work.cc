// SPDX-License-Identifier: MIT
#include "trainer/profile/call_work.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "trainer/slot_plan.h"
#include "trainer/used_shapes.h"

namespace strata::trainer::profile {
namespace {

using kernels::Work;

double bytes_of(FloatType type) { return type == FloatType::bfloat16 ? 2 : 4; }

// Of an element of what the op reads and writes.
double element_bytes(const std::string& op, const TrainerConfig& config) {
  const double computed = bytes_of(config.precision.compute);
  if (op != "global_norm" && op != "adamw") return computed;
  const double gradient = bytes_of(gradient_type(config, {.name = "", .parameters = {}, .is_layer = true}));
  // Of the two that an update touches besides its own state, the gradient has another type than the compute copy.
  return op == "global_norm" ? gradient : (gradient + computed) / 2;
}

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
    // These go over all parameters once in a step, in as many calls as the groups have parts.
    const bool whole = key.op == "adamw" || key.op == "global_norm";
    const double share = whole ? 1 : static_cast<double>(calls) / static_cast<double>(sum.uses);
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
  for (const UsedShape& used : used_shapes(config, graph)) {
    const std::string& op = used.shape.op;
    const double element = element_bytes(op, config);
    const Work forward = forward_work(used.shape, element), backward = backward_work(used.shape, element);
    for (const auto& [in_layer, uses] : {std::pair{true, used.in_layers}, std::pair{false, used.outside}}) {
      means.add({op, in_layer, false}, forward, uses);
      means.add({op, in_layer, true}, backward, uses);
    }
  }
  return [means](const OpKey& key, int64_t calls) { return means.of(key, calls); };
}

}  // namespace strata::trainer::profile
