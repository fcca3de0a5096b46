// SPDX-License-Identifier: MIT
// CopyRing: a RowRing of copies that GPUs from compute capability 8.0 on have (cp.async). Every thread copies the
// vectors that it reads, so no thread waits for another one.
#pragma once

#include "kernels/cuda/row_ring.cuh"

namespace strata::kernels {

// Starts a copy of 16 bytes to shared memory.
__device__ inline void copy_vector(unsigned shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The copies of this thread since the last call become a group.
__device__ inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of this thread but the last kNewer ones have arrived.
template <int kNewer>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewer) : "memory");
}

// Each stage is one group of copies of every thread, which is empty after the last row. A thread fills a stage again as
// soon as it has read it. One stage is enough.
template <int kTensors>
class CopyRing {
 public:
  using Team = RowTeam</*kWholeBlock=*/false>;

  __device__ CopyRing(const void* memory, const RowPlan& plan, const RowRange& range, int vectors_in_row,
                      const Team& team, const void* const (&tensors)[kTensors])
      : memory_(shared_address(memory)),
        vectors_in_row_(vectors_in_row),
        tensor_bytes_(plan.teams * vectors_in_row * static_cast<int>(sizeof(uint4))),
        plan_(plan),
        range_(range),
        next_row_(range.begin + team.index()) {
    for (int i = 0; i < kTensors; ++i) tensors_[i] = static_cast<const uint4*>(tensors[i]);
    for (int i = 0; i < plan.stages; ++i) send(team, i);
  }

  // Waits for the next stage. Returns the address of this thread's first vector in the first tensor's row.
  __device__ unsigned wait(const Team& team) const {
    static_assert(kMaxStages == 4);
    switch (plan_.stages) {
      case 1:
        wait_for_groups<0>();
        break;
      case 2:
        wait_for_groups<1>();
        break;
      case 3:
        wait_for_groups<2>();
        break;
      default:
        wait_for_groups<3>();
    }
    return place(team, stage_);
  }

  // The distance in bytes from the row of one tensor to the row of the next.
  __device__ int tensor_bytes() const { return tensor_bytes_; }

  // Called by every thread when it needs nothing more of the stage.
  __device__ void release(const Team& team) {
    send(team, stage_);
    stage_ = stage_ + 1 == plan_.stages ? 0 : stage_ + 1;
  }

 private:
  __device__ unsigned place(const Team& team, int stage) const {
    return memory_ + stage * kTensors * tensor_bytes_ +
           (team.index() * vectors_in_row_ + team.lane()) * static_cast<unsigned>(sizeof(uint4));
  }

  __device__ void send(const Team& team, int stage) {
    if (next_row_ < range_.end) {
      const int64_t first = next_row_ * vectors_in_row_ + team.lane();
      for (int step = 0; team.lane() + step < vectors_in_row_; step += team.size()) {
#pragma unroll
        for (int i = 0; i < kTensors; ++i) {
          copy_vector(place(team, stage) + i * tensor_bytes_ + step * static_cast<unsigned>(sizeof(uint4)),
                      tensors_[i] + first + step);
        }
      }
    }
    end_group();
    next_row_ += range_.step;
  }

  unsigned memory_;
  int vectors_in_row_, tensor_bytes_;
  const RowPlan& plan_;
  const RowRange& range_;
  const uint4* tensors_[kTensors];
  int stage_ = 0;
  int64_t next_row_;
};

}  // namespace strata::kernels
