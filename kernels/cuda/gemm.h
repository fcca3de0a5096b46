// SPDX-License-Identifier: MIT
// gemm: one matrix product of LibTorch tensors with an epilogue, by cuBLASLt or by the kernel of gelu_gemm.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace strata::kernels {

// The function that is applied to the product before it is stored. relu keeps a NaN. Not every call supports it, and
// none with `add`.
enum class Epilogue { none, relu, gelu_tanh };

// out [M, N] = epilogue(a [M, K] b [K, N] + bias [N]) with sums in fp32; with `add`, out += a b. The elements of a row
// are adjacent and rows may be any distance apart; a and b may also be transposed views of such matrices. `out` has the
// type of a and b, or fp32.
struct Gemm {
  at::Tensor a, b, out;
  at::Tensor bias = {};  // [N]; undefined: none
  Epilogue epilogue = Epilogue::none;
  at::Tensor pre_activation = {};  // strides of out; written by gelu_tanh
  bool add = false;
};

// Returns the matrix itself if a GEMM can read its strides, otherwise a contiguous copy.
at::Tensor gemm_operand(const at::Tensor& matrix);

// Launches the product. Returns false, and launches nothing, if no algorithm supports the call. Errors begin with `op`.
// An algorithm is chosen once for each kind of call (sizes, types, alignments, epilogue) and kept for the process, so
// that the same call gives the same bits. Eager calls time the candidates, so another process may choose another one.
// The first candidate is taken without timing during a CUDA graph capture, where nothing can be timed, and under
// at::globalContext().deterministicAlgorithms(), where all processes must choose the same one. No algorithm adds
// partial sums in an order that may vary.
// Some algorithms round a product to 16 bits before they add the bias. They are found by a trial and left out, except
// during a capture, where no trial can run.
// The relu of some algorithms turns a NaN into 0. They are found when candidates are timed, so relu is supported only
// where a call of its kind was timed.
bool try_gemm(std::string_view op, const Gemm& gemm);

// Launches the product like try_gemm, and throws a c10::Error if no algorithm supports the call.
void gemm(std::string_view op, const Gemm& gemm);

}  // namespace strata::kernels
