// SPDX-License-Identifier: MIT
// A ring of stages in shared memory, which one thread fills by bulk copies ahead of the warps that read it.
//
// An H200 delivers 4.2 TB/s with a latency of 0.7 us and more: every multiprocessor must have 25 KB under way all the
// time. Loads into registers stop whenever a block waits for its own sums; bulk copies go on.
#pragma once

#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

// A number that stays in a register. The compiler would make it again from special registers wherever it is used, which
// are 30 cycles away; addresses of shared memory are made of one.
__device__ inline unsigned kept(unsigned number) {
  asm volatile("" : "+r"(number));
  return number;
}

__device__ inline unsigned shared_address(const void* pointer) {
  return kept(static_cast<unsigned>(__cvta_generic_to_shared(pointer)));
}

// Not before the barriers that were waited for.
__device__ inline uint4 load_shared(unsigned address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// An mbarrier: a phase ends when all arrivals and all announced bytes have come; phases have the parities 0, 1, 0, ...
struct SharedBarrier {
  unsigned address;  // of 8 bytes

  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory"); }
  __device__ void arrive_expecting(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  // Returns when the phase of this parity has ended; at once for parity 1 on a new barrier.
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
  // The same for bytes that come from other blocks of a cluster.
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

// Of a cluster: how many blocks it has, and a barrier for all their threads.
__device__ inline int cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
}

__device__ inline void meet_cluster() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }

// Barriers that were initialized are visible to copies, and to the other blocks of a cluster once they have met.
__device__ inline void fence_initialized_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// `bytes` and both pointers are multiples of 16; the barrier gets the bytes when they have come.
__device__ inline void copy_bulk(unsigned shared, const void* global, int bytes, SharedBarrier barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier.address)
               : "memory");
}

// The two barriers of each stage: full when its bytes have come, empty when all warps have left it.
template <int kMaxStages>
class RingBarriers {
 public:
  // By all threads of the block, of which `readers` warps read the ring.
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

  // By a whole warp that has what it needs of a stage in registers.
  __device__ void release(int stage, bool first_lane) const {
    __syncwarp();
    if (first_lane) empty(stage).arrive();
  }

 private:
  unsigned address_;
};

// Where in the ring a reader or the writer is: the stage, and the parity of the turns around the ring.
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
