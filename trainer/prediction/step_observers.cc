// SPDX-License-Identifier: MIT
#include "trainer/prediction/step_observers.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/level.h"
#include "sharding/parameters/run_in_backward.h"

namespace strata::trainer {
namespace {

std::string name_of_backward(int64_t layer) { return "the backward of layer " + std::to_string(layer); }

kernels::Tracing* named_tracing = nullptr;  // the Tracing of OpNames; LibTorch's callbacks are functions without data

std::unique_ptr<at::ObserverContext> begin_op(const at::RecordFunction& scope) {
  named_tracing->set_op(scope.name());
  return nullptr;
}
void end_op(const at::RecordFunction&, at::ObserverContext*) { named_tracing->set_op(""); }

bool needs_gradient(const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

}  // namespace

std::optional<int64_t> layer_of_backward(const std::string& moment, size_t layers) {
  for (int64_t layer = 0; layer < static_cast<int64_t>(layers); ++layer) {
    if (moment == name_of_backward(layer)) return layer;
  }
  return std::nullopt;
}

RecordedCommunicator::RecordedCommunicator(int rank, int size, CallRecorder* recorder)
    : SilentCommunicator(rank, size, at::kMeta), recorder_(recorder) {}

sharding::PendingCollective RecordedCommunicator::start(const sharding::Collective& collective) {
  if (recorder_ != nullptr) recorder_->collective(collective, size());
  return {};
}

modules::Layer LayerMeter::wrap_layer(int64_t index, modules::Layer layer) {
  trace_.kept_by_layer.push_back(0);
  return [this, index, name = "layer " + std::to_string(index), layer = std::move(layer)](
             const modules::ResidualStream& stream, const modules::StepContext& context) {
    const auto entering = [this](std::string place) { return [this, place] { tracing_.set_place(place); }; };
    const std::vector<Tensor> inputs =
        sharding::run_in_backward({stream.residual, stream.branch}, entering("the backward of what is before " + name));
    const int64_t before = tracing_.current_bytes();
    tracing_.set_place("the forward of " + name);
    if (recorder_ != nullptr) recorder_->enter_layer(needs_gradient(stream.residual) || needs_gradient(stream.branch));
    const modules::ResidualStream output = layer({inputs[0], inputs[1]}, context);
    if (recorder_ != nullptr) recorder_->leave_layer();
    trace_.kept_by_layer.at(static_cast<size_t>(index)) = tracing_.current_bytes() - before;
    trace_.kept = tracing_.current_bytes();
    tracing_.set_place("the loss");
    const std::vector<Tensor> outputs =
        sharding::run_in_backward({output.residual, output.branch}, entering(name_of_backward(index)));
    return modules::ResidualStream{outputs[0], outputs[1]};
  };
}

OpNames::OpNames(kernels::Tracing& tracing) {
  named_tracing = &tracing;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin_op, end_op).scopes({at::RecordScope::USER_SCOPE}));
}

OpNames::~OpNames() {
  at::removeCallback(handle_);
  named_tracing->set_op("");
  named_tracing = nullptr;
}

void TracedShapes::call(const kernels::OpShape& shape, kernels::Level level, bool backward, at::ScalarType dtype) {
  if (backward) return;
  add(shape, dtype);
  const std::string_view op = shape.op();
  trace_.calls_cublas |=
      traits(level).multiplies_by_libraries && (op.starts_with("linear") || op.starts_with("attention"));
  if (recorder_ != nullptr) recorder_->op(shape, level, dtype);
}

void TracedShapes::add(const kernels::OpShape& shape, at::ScalarType dtype) {
  std::vector<UsedShape>& all = trace_.shapes;
  const auto same = std::ranges::find(all, shape, &UsedShape::shape);
  if (same == all.end()) {
    all.push_back({shape, {dtype}});
  } else {
    same->dtypes.insert(dtype);
    ++same->calls;
  }
}

std::unique_ptr<kernels::ObservedCalls> PhaseObserver::enter(Phase phase) {
  if (phase == Phase::forward) {
    tracing_.set_place("the embedding");
    if (recorder_ != nullptr) recorder_->begin_forward(/*is_new=*/begun_ == 0, repeats());
    ++begun_;
  } else {
    tracing_.set_place("the backward of the loss");
    if (recorder_ != nullptr) recorder_->begin_backward();
  }
  return begun_ == 1 ? std::make_unique<kernels::ObservedCalls>(shapes_) : nullptr;
}

int64_t PhaseObserver::repeats() const {
  if (begun_ >= traced_) return 0;  // a second round repeats the first
  const bool stands_for_the_middle = begun_ == 1 && all_ > 2;
  return stands_for_the_middle ? all_ - 2 : 1;
}

}  // namespace strata::trainer
