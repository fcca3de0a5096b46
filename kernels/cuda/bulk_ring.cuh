// SPDX-License-Identifier: MIT
// A ring of stages in shared memory. One thread fills it with bulk copies (cp.async.bulk) ahead of the warps that read
// it.
// An H200 delivers 4.2 TB/s with a latency of at least 0.7 us, so every multiprocessor must have 25 KB in flight all
// the time. Loads into registers stop whenever a block waits for its own sums; bulk copies continue.
#pragma once

#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

// Keeps a number in a register. Otherwise the compiler recomputes it at every use from special registers, which take 30
// cycles to read; addresses in shared memory are computed from such a number.
__device__ inline unsigned kept(unsigned number) {
  asm volatile("" : "+r"(number));
  return number;
}

__device__ inline unsigned shared_address(const void* pointer) {
  return kept(static_cast<unsigned>(__cvta_generic_to_shared(pointer)));
}

// Loads 16 bytes. The compiler does not move this load before an earlier wait on a barrier.
__device__ inline uint4 load_shared(unsigned address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// An mbarrier. A phase ends after all arrivals and all expected bytes; phases have the parities 0, 1, 0, ...
struct SharedBarrier {
  unsigned address;  // address of the mbarrier's 8 bytes

  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory"); }
  __device__ void arrive_expecting(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  // Waits until the phase of this parity has ended. Returns at once for parity 1 on a new barrier.
  __device__ void wait(int parity) const {
    unsigned ended;
    do {
      asm volatile(
          "{\n.reg .pred ended;\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n}"
          : "=r"(ended)
          : "r"(address), "r"(parity)
          : "memory");
    } while (ended == 0);
  }
  // The same wait for bytes that other blocks of the cluster send.
  __device__ void wait_for_cluster(int parity) const {
    unsigned ended;
    do {
      asm volatile(
          "{\n.reg .pred ended;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n}"
          : "=r"(ended)
          : "r"(address), "r"(parity)
          : "memory");
    } while (ended == 0);
  }
};

// The number of blocks of this cluster.
__device__ inline int cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
}

__device__ inline void meet_cluster() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }

// Makes initialized barriers visible to bulk copies, and to the other blocks of the cluster after meet_cluster().
__device__ inline void fence_initialized_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Starts a copy of `bytes` to shared memory and reports the bytes to `barrier` when they have arrived. `bytes` and both
// pointers are multiples of 16.
__device__ inline void copy_bulk(unsigned shared, const void* global, int bytes, SharedBarrier barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier.address)
               : "memory");
}

// The two barriers of each stage: `full` ends a phase when the bytes have arrived, `empty` when all warps have released
// the stage.
template <int kMaxStages>
class RingBarriers {
 public:
  // Called by all threads of the block, of which `readers` warps read the ring.
  __device__ RingBarriers(int stages, int readers) {
    __shared__ uint64_t memory[2 * kMaxStages];
    address_ = shared_address(memory);
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        full(i).init(1);
        empty(i).init(readers);
      }
      fence_initialized_barriers();
    }
    __syncthreads();
  }

  __device__ SharedBarrier full(int stage) const { return {address_ + 16 * stage}; }
  __device__ SharedBarrier empty(int stage) const { return {address_ + 16 * stage + 8}; }

  // Called by a whole warp after it has copied what it needs of a stage to registers.
  __device__ void release(int stage, bool first_lane) const {
    __syncwarp();
    if (first_lane) empty(stage).arrive();
  }

 private:
  unsigned address_;
};

// The position of a reader or writer in the ring: the stage, and the parity of the round.
struct RingPosition {
  int stage = 0, turn = 0;

  __device__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      turn ^= 1;
    }
  }
};

}  // namespace strata::kernels
