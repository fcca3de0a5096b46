// SPDX-License-Identifier: MIT
#include "sharding/communication/nccl_communicator.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "base/errors.h"
#include "sharding/communication/local_communicator.h"
#include "sharding/communication/nccl_environment.h"
#include "sharding/communication/window_memory.h"

namespace strata::sharding {
namespace {

void check(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return;
  const char* more = ncclGetLastError(nullptr);
  throw Error(ExitCode::communication, what + " failed: " + ncclGetErrorString(result) +
                                           (more != nullptr && *more != '\0' ? std::string(": ") + more : ""));
}

ncclDataType_t type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kDouble:
      return ncclFloat64;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    default:
      TORCH_CHECK(false, "collectives of ", dtype, " are not known");
  }
}

ncclConfig_t config_for(bool copy_engines) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (copy_engines) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  return config;
}

// Returns rank 0's id on all ranks of the group.
ncclUniqueId common_id(const HostGroup& group) {
  ncclUniqueId id{};
  std::string text;
  if (group.rank() == 0) {
    check(ncclGetUniqueId(&id), "the id of a communicator");
    text.assign(id.internal, sizeof(id.internal));
  }
  const std::string from_first = group.gather(text, "the id of a communicator of NCCL")[0];
  std::memcpy(id.internal, from_first.data(), sizeof(id.internal));
  return id;
}

// True if all ranks can reach the window's memory. Otherwise NCCL returns no window, or a registration whose handle is
// in host memory.
bool is_window(ncclWindow_t window) {
  cudaPointerAttributes attributes{};
  if (window == nullptr) return false;
  C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, window));
  return attributes.type == cudaMemoryTypeDevice;
}

// Registers a wait with the watchdog until the end of the scope.
class Watched {
 public:
  Watched(Watchdog& watchdog, Watchdog::Wait wait) : watchdog_(watchdog), id_(watchdog.begin(std::move(wait))) {}
  ~Watched() {
    if (id_ >= 0) watchdog_.end(id_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  // The caller of release() must end the wait.
  int64_t release() { return std::exchange(id_, -1); }

 private:
  Watchdog& watchdog_;
  int64_t id_;
};

class PendingOnGpu : public PendingCollective::State {
 public:
  PendingOnGpu(std::shared_ptr<GpuEvent> done, std::vector<Tensor> tensors)
      : done_(std::move(done)), tensors_(std::move(tensors)) {}
  void wait() override {
    done_->block(c10::cuda::getCurrentCUDAStream());
    tensors_.clear();
  }

 private:
  std::shared_ptr<GpuEvent> done_;
  std::vector<Tensor> tensors_;
};

ncclResult_t queue_all_to_all(const Collective& collective, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = type_of(collective.input.scalar_type());
  const int64_t width = collective.input.element_size();
  const char* from = static_cast<const char*>(collective.input.const_data_ptr());
  char* to = static_cast<char*>(collective.output.mutable_data_ptr());
  ncclResult_t result = ncclGroupStart();
  for (size_t i = 0; i < collective.input_counts.size() && result == ncclSuccess; ++i) {
    const int peer = static_cast<int>(i);
    const int64_t sent = collective.input_counts[i], received = collective.output_counts[i];
    if (sent > 0) result = ncclSend(from, static_cast<size_t>(sent), type, peer, comm, stream);
    if (received > 0 && result == ncclSuccess) {
      result = ncclRecv(to, static_cast<size_t>(received), type, peer, comm, stream);
    }
    from += sent * width;
    to += received * width;
  }
  return result == ncclSuccess ? ncclGroupEnd() : result;
}

ncclResult_t queue(const Collective& collective, ncclComm_t comm, cudaStream_t stream) {
  const Tensor &output = collective.output, &input = collective.input;
  const void* const from = input.const_data_ptr();
  void* const to = output.mutable_data_ptr();
  const auto sent = static_cast<size_t>(input.numel()), received = static_cast<size_t>(output.numel());
  const ncclDataType_t type = type_of(input.scalar_type());
  switch (collective.operation) {
    case Operation::all_gather:
      return ncclAllGather(from, to, sent, type, comm, stream);
    case Operation::reduce_scatter:
      return ncclReduceScatter(from, to, received, type, ncclSum, comm, stream);
    case Operation::all_reduce:
      return ncclAllReduce(from, to, sent, type, ncclSum, comm, stream);
    case Operation::all_reduce_max:
      return ncclAllReduce(from, to, sent, type, ncclMax, comm, stream);
    case Operation::broadcast:
      return ncclBroadcast(from, to, sent, type, collective.root, comm, stream);
    case Operation::all_to_all:
      return queue_all_to_all(collective, comm, stream);
  }
  return ncclInternalError;  // unreachable: the switch is complete
}

}  // namespace

NcclHandle::NcclHandle(ncclComm_t comm, std::string group, GpuWatch& watch)
    : comm_(comm),
      group_(std::move(group)),
      watch_(watch),
      check_(watch.add_check([comm, group = group_]() -> std::string {
        ncclResult_t state = ncclSuccess;
        if (ncclCommGetAsyncError(comm, &state) == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) {
          return "";
        }
        return group + ": NCCL lost the connection to a rank: " + ncclGetErrorString(state);
      })),
      exceptions_at_start_(std::uncaught_exceptions()) {}

NcclHandle::~NcclHandle() {
  watch_.remove_check(check_);
  if (std::uncaught_exceptions() == exceptions_at_start_) ncclCommDestroy(comm_);
}

Tensor NcclHandle::window(int64_t elements, at::TensorOptions options) {
  const size_t bytes = static_cast<size_t>(elements) * options.dtype().itemsize();
  const std::string what = std::to_string(bytes) + " bytes that all ranks can reach";
  void* allocated = nullptr;
  TORCH_CHECK_WITH(OutOfMemoryError, ncclMemAlloc(&allocated, bytes) == ncclSuccess, "NCCL could not allocate ", what);
  window_memory() += static_cast<int64_t>(bytes);
  const auto give_back = [bytes](void* data) {
    ncclMemFree(data);
    window_memory() -= static_cast<int64_t>(bytes);
  };
  std::unique_ptr<void, decltype(give_back)> memory(allocated, give_back);
  ncclWindow_t window = nullptr;
  check(ncclCommWindowRegister(comm_, allocated, bytes, &window, NCCL_WIN_COLL_SYMMETRIC), what);
  if (!is_window(window)) {
    ncclCommWindowDeregister(comm_, window);
    throw Error(
        ExitCode::configuration,
        "sharding.gather is copy_engines, which needs GPUs that reach each other's memory: those of " + group_ +
            " do not, says NCCL, or may not (NCCL_WIN_ENABLE=0, NCCL_CUMEM_ENABLE=0); choose separate or shared");
  }
  const auto release = [self = shared_from_this(), window, give_back](void* data) {
    if (std::uncaught_exceptions() > self->exceptions_at_start_) return;  // other ranks may never get here
    ncclCommWindowDeregister(self->comm_, window);
    give_back(data);
  };
  return at::from_blob(memory.release(), {elements}, release, options).zero_();
}

NcclCommunicator::NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather)
    : group_(std::move(group)),
      watch_(watch),
      gather_(gather),
      all_(new_lane(/*copy_engines=*/false)),
      gathers_(gather == Gather::shared ? all_ : new_lane(gather == Gather::copy_engines)) {}

NcclCommunicator::NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather, Lane all, Lane gathers)
    : group_(std::move(group)), watch_(watch), gather_(gather), all_(std::move(all)), gathers_(std::move(gathers)) {}

NcclCommunicator::Lane NcclCommunicator::new_lane(bool copy_engines) {
  TORCH_CHECK(group_.size() > 1, "a communicator of NCCL is for two ranks or more");
  const ncclUniqueId id = common_id(group_);
  const Watched watched(watch_.watchdog(), {"", group_.name() + ": the start of NCCL"});
  ncclConfig_t config = config_for(copy_engines);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRankConfig(&comm, size(), id, rank(), &config), group_.name() + ": the start of NCCL");
  return {c10::cuda::getStreamFromPool(/*isHighPriority=*/true),
          std::make_shared<NcclHandle>(comm, group_.name(), watch_)};
}

PendingCollective NcclCommunicator::start(const Collective& collective) {
  for (const Tensor* tensor : {&collective.output, &collective.input}) {
    TORCH_CHECK(tensor->device() == device(), collective.text(), ": a tensor is on ", tensor->device(),
                ", this rank's communicator is on ", device());
  }
  ++sequence_;
  if (collective.count() == 0) return {};
  const Lane& lane = collective.operation == Operation::all_gather ? gathers_ : all_;
  const cudaStream_t current = c10::cuda::getCurrentCUDAStream();
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(current, &capturing));
  const std::shared_ptr<GpuEvent> ready = watch_.take_event(), done = watch_.take_event();
  ready->record(current);
  ready->block(lane.stream);
  const bool watches = capturing == cudaStreamCaptureStatusNone;
  // NCCL may also block the host while it connects to other ranks, so the call is watched too.
  Watched watched(watch_.watchdog(),
                  {watches ? group_.name() + ", collective " + std::to_string(sequence_) : "", collective.text()});
  check(queue(collective, lane.handle->get(), lane.stream.stream()), collective.text());
  done->record(lane.stream);
  if (watches) watch_.end_at(watched.release(), ready, done);
  return PendingCollective(
      std::make_shared<PendingOnGpu>(done, std::vector<Tensor>{collective.output, collective.input}));
}

Tensor NcclCommunicator::gather_buffer(int64_t elements, at::TensorOptions options) {
  if (gather_ != Gather::copy_engines || elements == 0) return at::zeros({elements}, options);
  require_one_host();
  const Watched watched(watch_.watchdog(), {"", group_.name() + ": memory that all ranks can reach"});
  return gathers_.handle->window(elements, options);
}

void NcclCommunicator::require_one_host() {
  if (is_on_one_host_) return;
  const auto hosts = group_.gather(nccl_host(), "the hosts of a gather by copy engines");
  for (size_t i = 1; i < hosts.size(); ++i) {
    if (hosts[i] == hosts[0]) continue;
    throw Error(ExitCode::configuration,
                "sharding.gather is copy_engines, which move data inside of a host, and of " + group_.name() +
                    " rank " + std::to_string(group_.members()[0]) + " and rank " +
                    std::to_string(group_.members()[i]) +
                    " are on different hosts; choose separate or shared, or strategy: hybrid with copies of one host");
  }
  is_on_one_host_ = true;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color) {
  HostGroup subgroup = group_.split(color);
  Lane all = split(all_, /*copy_engines=*/false, subgroup, color);
  Lane gathers = gather_ == Gather::shared ? all : split(gathers_, gather_ == Gather::copy_engines, subgroup, color);
  if (subgroup.size() == 1) return std::make_unique<LocalCommunicator>(device());
  return std::unique_ptr<NcclCommunicator>(
      new NcclCommunicator(std::move(subgroup), watch_, gather_, std::move(all), std::move(gathers)));
}

NcclCommunicator::Lane NcclCommunicator::split(const Lane& lane, bool copy_engines, const HostGroup& subgroup,
                                               int color) {
  if (subgroup.size() == size()) return lane;
  const bool is_alone = subgroup.size() == 1;
  const Watched watched(watch_.watchdog(), {"", group_.name() + ": the split of NCCL's communicator"});
  ncclConfig_t config = config_for(copy_engines);
  config.splitShare = 1;  // uses the buffers and connections of the whole group
  ncclComm_t comm = nullptr;
  check(ncclCommSplit(lane.handle->get(), is_alone ? NCCL_SPLIT_NOCOLOR : color, rank(), &comm, &config),
        group_.name() + ": the split of NCCL's communicator");
  return {lane.stream, is_alone ? nullptr : std::make_shared<NcclHandle>(comm, subgroup.name(), watch_)};
}

std::string NcclCommunicator::description(Gather gather) {
  int version = 0;
  ncclGetVersion(&version);
  const char* multicast = std::getenv("NCCL_NVLS_ENABLE");
  constexpr std::array<const char*, 3> streams = {
      "one high-priority stream", "a high-priority stream and one for all-gathers",
      "a high-priority stream and one for all-gathers, which copy engines move"};
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100) + ", " + streams[static_cast<size_t>(gather)] +
         ", reductions in NVLink switches " + (multicast != nullptr && std::strcmp(multicast, "0") == 0 ? "off" : "on");
}

}  // namespace strata::sharding
