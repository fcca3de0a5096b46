// SPDX-License-Identifier: MIT
// Kernels that break a GPU, for tests. Only a new process can use the GPU again.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::trainer {

// Queues a kernel that never ends. Other kernels can run beside it, because it takes one block.
cudaError_t launch_endless_kernel(cudaStream_t stream);

// Queues a kernel that never ends unless the number at `goes_on`, on the device, is 1. It may be captured.
cudaError_t launch_wait(const float* goes_on, cudaStream_t stream);

// Queues a kernel that writes to an invalid address.
cudaError_t launch_invalid_write(cudaStream_t stream);

}  // namespace strata::trainer
