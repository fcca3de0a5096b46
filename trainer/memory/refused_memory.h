// SPDX-License-Identifier: MIT
// Recognizes exceptions which say that memory could not be allocated.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace strata::trainer {

// Both return LibTorch's sentence about the request, or nothing if the exception has another cause. They also read the
// text of the exception, because TorchScript's interpreter throws a std::runtime_error with the text of the first
// error.
std::optional<std::string> refused_by_gpu(const std::exception& error);
// The allocator of the CPU throws no c10::OutOfMemoryError, so only the text shows the cause.
std::optional<std::string> refused_by_host(const std::exception& error);

}  // namespace strata::trainer
