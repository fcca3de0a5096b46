// SPDX-License-Identifier: MIT
// A copy of a rank's pieces in host memory. All saves use the same arena.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

namespace strata::trainer {

class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();  // waits for the copies
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Allocates the arena for these pieces, unless it is large enough: pinned memory for pieces on a GPU. Throws
  // Error(out_of_memory) if the driver has none.
  void reserve(const std::vector<TensorPiece>& pieces);

  // Copies the pieces. Those on CPUs may be modified when it returns. Copies from a GPU are only queued, on the stream
  // copies(), after the work that is queued on the current stream now. The GPU may modify the pieces after these
  // copies.
  void take(const std::vector<TensorPiece>& pieces);
  const std::optional<c10::cuda::CUDAStream>& copies() const { return copies_; }  // nothing before pieces of a GPU

  // Waits until the copies are complete. It may be called in another thread.
  void wait() const;
  // The pieces with their data in host memory, which are valid until the next take().
  const std::vector<TensorPiece>& pieces() const { return pieces_; }

  int64_t bytes() const { return arena_.defined() ? arena_.numel() : 0; }

 private:
  void queue_copies(const std::vector<TensorPiece>& pieces);

  at::Tensor arena_;                        // bytes
  std::vector<TensorPiece> pieces_;         // views of the arena
  std::vector<at::Tensor> device_tensors_;  // what the copies read
  std::optional<c10::cuda::CUDAStream> copies_;
  c10::cuda::CUDAEvent written_;  // the pieces have the values to copy
  c10::cuda::CUDAEvent copied_{cudaEventDisableTiming | cudaEventBlockingSync};
};

}  // namespace strata::trainer
