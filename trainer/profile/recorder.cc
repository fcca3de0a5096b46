// SPDX-License-Identifier: MIT
#include "trainer/profile/recorder.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "kernels/runtime/call.h"

namespace strata::trainer::profile {
namespace {

using torch::profiler::impl::ActivityType;

// Values of libkineto::ActivityType in recorded events.
enum class Kind { gpu_user_annotation = 2, gpu_memcpy = 3, gpu_memset = 4, kernel = 5, runtime = 7, driver = 8 };

std::set<ActivityType> activities(bool on_gpu) {
  std::set<ActivityType> kinds{ActivityType::CPU};
  if (on_gpu) kinds.insert(ActivityType::CUDA);
  return kinds;
}

torch::profiler::impl::ProfilerConfig config() {
  torch::profiler::impl::ExperimentalConfig experimental;
  // Kernels are linked to their launches by the launch's own correlation id, which halves the number of events.
  experimental.disable_external_correlation = true;
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                               /*report_input_shapes=*/false, /*profile_memory=*/false,
                                               /*with_stack=*/false, /*with_flops=*/false, /*with_modules=*/false,
                                               experimental);
}

Scope::Kind kind_of(at::RecordScope scope) {
  if (scope == at::RecordScope::USER_SCOPE) return Scope::Kind::user;
  return scope == at::RecordScope::BACKWARD_FUNCTION ? Scope::Kind::backward : Scope::Kind::function;
}

std::unique_ptr<at::ObserverContext> push_range(const at::RecordFunction& function) {
  torch::profiler::impl::cudaStubs()->rangePush(function.name());
  return nullptr;
}

void pop_range(const at::RecordFunction&, at::ObserverContext*) { torch::profiler::impl::cudaStubs()->rangePop(); }

}  // namespace

Recorder::Recorder(bool on_gpu) : on_gpu_(on_gpu) {
  if (!on_gpu) {
    // Kineto would otherwise warn that it finds no GPU.
    setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
    return;
  }
  // CUPTI cannot be shut down and initialized again when CUDA graphs are used. LibTorch's Python code sets these
  // variables too.
  setenv("TEARDOWN_CUPTI", "0", /*overwrite=*/0);
  setenv("DISABLE_CUPTI_LAZY_REINIT", "1", /*overwrite=*/0);
}

Recorder::~Recorder() {
  if (!recording_) return;
  try {
    stop();
  } catch (...) {  // the run ends with another error
  }
}

void Recorder::start() {
  using torch::autograd::profiler::enableProfiler;
  torch::autograd::profiler::prepareProfiler(config(), activities(on_gpu_));
  enableProfiler(config(), activities(on_gpu_),
                 {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  if (on_gpu_) {
    ranges_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(push_range, pop_range).scopes({at::RecordScope::USER_SCOPE}));
  }
  calls_.clear();
  observed_.emplace(static_cast<kernels::CallObserver&>(*this));
  recording_ = true;
}

Recording Recorder::stop() {
  recording_ = false;
  observed_.reset();
  if (ranges_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(ranges_);
  ranges_ = at::INVALID_CALLBACK_HANDLE;
  const auto result = torch::autograd::profiler::disableProfiler();
  Recording recorded;
  for (const auto& event : result->events()) {
    const auto start = static_cast<int64_t>(event.startNs()), end = static_cast<int64_t>(event.endNs());
    const auto kind = static_cast<Kind>(event.activityType());
    const int64_t resource = event.deviceResourceId();  // a host thread or a device stream
    if (kind == Kind::runtime || kind == Kind::driver) {
      recorded.launches.push_back({event.name(), start, resource, event.correlationId()});
    } else if (event.deviceType() != at::kCPU) {
      const bool work = kind == Kind::kernel || kind == Kind::gpu_memcpy || kind == Kind::gpu_memset;
      if (work) recorded.device.push_back({event.name(), start, end, resource, event.correlationId()});
    } else {
      recorded.scopes.push_back({event.name(), kind_of(static_cast<at::RecordScope>(event.scope())), start, end,
                                 resource, event.sequenceNr(), static_cast<int64_t>(event.startThreadId()),
                                 static_cast<int64_t>(event.fwdThreadId())});
    }
  }
  add_work_to(recorded.scopes);
  return recorded;
}

void Recorder::call(const kernels::OpShape& shape, kernels::Level level, bool backward, at::ScalarType dtype) {
  const auto bytes = static_cast<double>(c10::elementSize(dtype));
  const kernels::Work backward_work = shape.backward_work(bytes);
  const std::string name = kernels::scope_name(shape.op(), level, backward ? kernels::kBackward : "");
  calls_[name].push_back(backward ? WorkOfCall{backward_work, {}}
                                  : WorkOfCall{shape.forward_work(bytes), backward_work});
}

// The calls of a name start in the order in which they were reported. If the counts differ, some calls began or ended
// outside of the recording or in threads that are not recorded, and the work of this name is left unknown.
void Recorder::add_work_to(std::vector<Scope>& scopes) {
  std::map<std::string, std::vector<Scope*>> by_name;
  for (Scope& scope : scopes) {
    if (scope.kind == Scope::Kind::user && calls_.contains(scope.name)) by_name[scope.name].push_back(&scope);
  }
  for (auto& [name, named_scopes] : by_name) {
    const std::vector<WorkOfCall>& calls = calls_.at(name);
    if (calls.size() != named_scopes.size()) continue;
    std::ranges::stable_sort(named_scopes, {}, &Scope::start);
    for (size_t i = 0; i < calls.size(); ++i) {
      named_scopes[i]->work = calls[i].work;
      named_scopes[i]->work_of_backward = calls[i].backward_work;
    }
  }
}

}  // namespace strata::trainer::profile
