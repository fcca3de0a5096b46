// SPDX-License-Identifier: MIT
// N own nodes, H nodes of the halo, S sent nodes, D width
#include "trainer/tasks/halo_exchange.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>
#include <vector>

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::trainer {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HaloExchange::Plan {
  sharding::Communicator& world;
  kernels::Level level;
  int64_t halo;
  std::vector<int64_t> receive_counts, send_counts;  // numbers of nodes, by rank
  Tensor sent;                                       // int64 [S]: indices of own nodes
  kernels::NeighborGraph returned;  // edges from returned gradients to the own nodes that they belong to

  // Converts numbers of rows to numbers of elements.
  static std::vector<int64_t> elements(const std::vector<int64_t>& rows, int64_t width) {
    std::vector<int64_t> result;
    for (const int64_t count : rows) result.push_back(count * width);
    return result;
  }
};

namespace {

using Plan = HaloExchange::Plan;

struct PlanHolder : torch::CustomClassHolder {
  explicit PlanHolder(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}
  std::shared_ptr<const Plan> plan;
};

class Exchange : public torch::autograd::Function<Exchange> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_ND, const c10::intrusive_ptr<PlanHolder>& holder) {
    context->saved_data["plan"] = c10::IValue::make_capsule(holder);
    const Plan& plan = *holder->plan;
    const int64_t nodes = x_ND.size(0), width = x_ND.size(1);
    const Tensor result = at::empty({nodes + plan.halo, width}, x_ND.options());
    result.narrow(0, 0, nodes).copy_(x_ND);
    plan.world
        .all_to_all(result.narrow(0, nodes, plan.halo), Plan::elements(plan.receive_counts, width),
                    x_ND.index_select(0, plan.sent), Plan::elements(plan.send_counts, width), "halo")
        .wait();
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto holder = c10::static_intrusive_pointer_cast<PlanHolder>(context->saved_data["plan"].toCapsule());
    const Plan& plan = *holder->plan;
    const Tensor gradient = gradients[0].contiguous();
    const int64_t nodes = gradient.size(0) - plan.halo, width = gradient.size(1);
    const Tensor back_SD = at::empty({plan.sent.size(0), width}, gradient.options());
    plan.world
        .all_to_all(back_SD, Plan::elements(plan.send_counts, width), gradient.narrow(0, nodes, plan.halo),
                    Plan::elements(plan.receive_counts, width), "gradient of the halo")
        .wait();
    const Tensor returned_ND =
        kernels::neighbor_aggregate(back_SD, plan.returned, /*edge_weight=*/{}, kernels::Reduction::sum, plan.level);
    return {at::add(gradient.narrow(0, 0, nodes), returned_ND), Tensor()};
  }
};

}  // namespace

HaloExchange::HaloExchange(const GraphPart& part, sharding::Communicator& world, kernels::Level level)
    : plan_(new Plan{.world = world,
                     .level = level,
                     .halo = part.halo.size(0),
                     .receive_counts = part.receive_counts,
                     .send_counts = part.send_counts,
                     .sent = part.sent.to(world.device()),
                     .returned = kernels::NeighborGraph::from_edges(at::arange(part.sent.size(0), at::kLong), part.sent,
                                                                    part.sent.size(0), part.nodes())
                                     .to(world.device())}) {}

Tensor HaloExchange::operator()(const Tensor& x) const {
  return Exchange::apply(x, c10::make_intrusive<PlanHolder>(plan_));
}

}  // namespace strata::trainer
