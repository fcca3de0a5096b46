// SPDX-License-Identifier: MIT
#include "tools/generation/placement.h"

#include <algorithm>
#include <set>

#include "kernels/runtime/level.h"
#include "sharding/process/visible_gpus.h"

namespace strata::generation {
namespace {

at::Device choose_device(const std::string& setting) {
  using sharding::DeviceSetting;
  const auto known = names(DeviceSetting{});
  const auto found = static_cast<DeviceSetting>(std::find(known.begin(), known.end(), setting) - known.begin());
  sharding::RankDevices here{.host = "this machine"};
  if (found != DeviceSetting::cpu) {
    sharding::VisibleGpus visible = sharding::visible_gpus();
    here.problem = std::move(visible.problem);
    if (!visible.gpus.empty()) here.gpus = {visible.gpus[0]};
  }
  const sharding::DeviceChoice choice = sharding::choose_devices(found, {here});
  return choice.cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

}  // namespace

void Placement::add_options(CLI::App& app) {
  app.add_option("--dtype", dtype, "of weights, cache and logits")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  add_device_option(app);
  std::set<std::string> choices(kernels::kLevelNames.begin(), kernels::kLevelNames.end());
  choices.insert({"auto", "best"});
  app.add_option("--kernels", kernels,
                 "level of all ops; auto: aten, and on GPUs cuda where a step is faster with it; best: the plan of the "
                 "run")
      ->capture_default_str()
      ->check(CLI::IsMember(choices));
  app.add_option("--cuda-graph", cuda_graph, "auto: steps on a GPU are captured; off: they are not")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "off"}));
}

void Placement::add_device_option(CLI::App& app) {
  app.add_option("--device", device, "auto: the first GPU, if there is one; cpu; cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
}

at::TensorOptions Placement::tensor_options() const {
  const at::ScalarType type = dtype == "bf16" ? at::kBFloat16 : dtype == "fp16" ? at::kHalf : at::kFloat;
  return at::dtype(type).device(choose_device(device));
}

}  // namespace strata::generation
