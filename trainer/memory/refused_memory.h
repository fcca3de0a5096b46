// SPDX-License-Identifier: MIT
// Recognizes exceptions which say that memory could not be allocated.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace strata::trainer {

// Both return what was asked for, in LibTorch's words, or nothing if the exception has another cause. The text of an
// exception is a sign too, because TorchScript's interpreter throws std::runtime_error with the text of the first
// error.
std::optional<std::string> refused_by_gpu(const std::exception& error);
// The allocator of the CPU throws no c10::OutOfMemoryError, so its text is the only sign.
std::optional<std::string> refused_by_host(const std::exception& error);

}  // namespace strata::trainer
