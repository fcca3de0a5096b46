// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/snapshot.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "base/errors.h"

namespace strata::trainer {
namespace {

constexpr int64_t kAlignment = 64;  // bytes: a line of the cache

int64_t bytes_in_arena(const at::Tensor& data) {
  return (static_cast<int64_t>(data.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

bool copies_from_gpu(const TensorPiece& piece) { return piece.data.is_cuda() && piece.data.numel() > 0; }

// LibTorch's allocator of pinned memory would round up to a power of two, which can double tens of gigabytes.
at::Tensor pinned_memory(int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t result = cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
  if (result != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // otherwise the next call would report it
    throw Error(ExitCode::out_of_memory,
                "a save copies the shards of this rank to " + std::to_string(bytes) +
                    " bytes of pinned memory of the host, which the driver refused: " + cudaGetErrorString(result) +
                    "; if more hosts share the model, each needs less");
  }
  return at::from_blob(
      memory, {bytes}, [](void* pinned) { cudaFreeHost(pinned); }, at::TensorOptions(at::kByte));
}

}  // namespace

Snapshot::~Snapshot() {
  try {
    wait();
  } catch (const std::exception&) {
    // The GPU has failed, so it copies nothing any more, and the error was reported where it came first.
  }
}

void Snapshot::reserve(const std::vector<TensorPiece>& pieces) {
  int64_t bytes = 0;
  for (const TensorPiece& piece : pieces) bytes += bytes_in_arena(piece.data);
  if (bytes <= this->bytes()) return;
  wait();
  pieces_.clear();
  arena_ = at::Tensor();  // freed before the larger one is allocated
  const bool pinned = std::any_of(pieces.begin(), pieces.end(), copies_from_gpu);
  arena_ = pinned ? pinned_memory(bytes) : at::empty({bytes}, at::TensorOptions(at::kByte));
}

void Snapshot::take(const std::vector<TensorPiece>& pieces) {
  reserve(pieces);
  pieces_.clear();
  device_tensors_.clear();
  int64_t offset = 0;
  for (const TensorPiece& piece : pieces) {
    if (piece.data.dim() != 1 || !piece.data.is_contiguous()) {
      throw Error(ExitCode::internal, piece.tensor + ": a piece must be one-dimensional and contiguous");
    }
    const auto bytes = static_cast<int64_t>(piece.data.nbytes());
    pieces_.push_back(piece);
    at::Tensor& copy = pieces_.back().data;
    if (bytes == 0) {
      copy = at::empty({0}, at::TensorOptions(piece.data.scalar_type()));
      continue;
    }
    copy = arena_.narrow(0, offset, bytes).view(piece.data.scalar_type());
    offset += bytes_in_arena(piece.data);
    if (piece.data.is_cuda()) {
      device_tensors_.push_back(piece.data);
      continue;
    }
    // memcpy is used because copy_ wakes the thread pool, which costs more than the copy if ranks share cores.
    std::memcpy(copy.mutable_data_ptr(), piece.data.const_data_ptr(), piece.data.nbytes());
  }
  if (!device_tensors_.empty()) queue_copies(pieces);
}

void Snapshot::queue_copies(const std::vector<TensorPiece>& pieces) {
  const c10::DeviceIndex device = device_tensors_.front().device().index();
  if (!copies_) copies_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device);
  written_.record(c10::cuda::getCurrentCUDAStream(device));
  written_.block(*copies_);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!copies_from_gpu(pieces[i])) continue;
    C10_CUDA_CHECK(cudaMemcpyAsync(pieces_[i].data.mutable_data_ptr(), pieces[i].data.const_data_ptr(),
                                   pieces[i].data.nbytes(), cudaMemcpyDeviceToHost, *copies_));
  }
  copied_.record(*copies_);
}

void Snapshot::wait() const {
  if (!copies_) return;
  c10::cuda::set_device(copies_->device_index());  // a new thread would wait in a context of GPU 0
  copied_.synchronize();
}

}  // namespace strata::trainer
