// SPDX-License-Identifier: MIT
#include <ATen/TensorOperators.h>
#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/arange.h>
#include <chrono>
#include "kernels/attention/attention.h"
#include "tests/scratch_gemm/timing.h"
using namespace strata::kernels;
namespace {
Tensor normal(std::vector<int64_t> sizes) { return at::randn(sizes, at::TensorOptions(at::kCUDA).dtype(at::kFloat)).to(at::kBFloat16); }
double apart(const Tensor& a, const Tensor& b) { return ((a.to(at::kFloat) - b.to(at::kFloat)).abs().max() / b.to(at::kFloat).abs().max()).item<double>(); }
void run(int64_t b, int64_t t, int64_t h, int64_t k, int64_t d, bool causal, int64_t window, int64_t document, bool deterministic) {
  at::globalContext().setDeterministicAlgorithms(deterministic, true);
  const auto& cuda = AttentionOp::kKernels.cuda;
  AttentionMask mask{causal, window, {}};
  if (document > 0) mask.document_offsets = at::arange(0, b * t + 1, document, at::TensorOptions(at::kCUDA).dtype(at::kInt));
  const AttentionOp::Shape shape{h, k, mask};
  std::vector<Tensor> qkv, g; std::vector<AttentionOp::Output> out;
  try {
    // checked first, on one row, against aten in fp32 by plain products
    {
      const int64_t n = std::min<int64_t>(t, 1024);
      const AttentionMask small{causal, window, document > 0 ? at::arange(0, n + 1, std::min(document, n), at::TensorOptions(at::kCUDA).dtype(at::kInt)) : Tensor()};
      const Tensor x = normal({1, n, (h + 2 * k) * d}), gy = normal({1, n, h * d});
      Tensor wide = x.to(at::kFloat).detach().requires_grad_();
      const Tensor y = attention(wide, h, k, small, Level::torchscript);
      y.backward(gy.to(at::kFloat));
      const AttentionOp::Shape s{h, k, small};
      const auto o = cuda.forward(x, s);
      const Tensor gx = cuda.backward(gy, x, o.y, o.logsumexp, s);
      std::printf("  check y %.1e gqkv %.1e\n", apart(o.y, y.detach()), apart(gx, wide.grad()));
    }
    for (int i = 0; i < 3; ++i) { qkv.push_back(normal({b, t, (h + 2 * k) * d})); g.push_back(normal({b, t, h * d})); out.push_back(cuda.forward(qkv[i], shape)); }
    const Tensor once = cuda.backward(g[0], qkv[0], out[0].y, out[0].logsumexp, shape);
    const bool same = once.equal(cuda.backward(g[0], qkv[0], out[0].y, out[0].logsumexp, shape));
    const auto f = time_calls([&](int i) { cuda.forward(qkv[i % 3], shape); });
    const auto r = time_calls([&](int i) { cuda.backward(g[i % 3], qkv[i % 3], out[i % 3].y, out[i % 3].logsumexp, shape); });
    const double span = document > 0 ? document : t, flop = 4.0 * b * h * t * span * d / (causal ? 2 : 1);
    std::printf("B %ld T %ld H %ld K %ld D %ld%s window %ld documents of %ld%s: fwd %.3f ms %.0f TF (best %.0f), bwd %.3f ms %.0f TF (best %.0f), bwd bits same %d\n", b, t, h, k, d, causal ? " causal" : " full", window, document, deterministic ? " deterministic" : "",
      f.median, flop / f.median * 1e-9, flop / f.least * 1e-9, r.median, 2.5 * flop / r.median * 1e-9, 2.5 * flop / r.least * 1e-9, int(same));
  } catch (const std::exception& e) { std::printf("failed: %.300s\n", e.what()); }
  std::fflush(stdout);
}
}  // namespace
int main() {
  for (const bool deterministic : {false, true}) {
    run(64, 1024, 12, 12, 64, true, 0, 0, deterministic);
    run(4, 4096, 32, 8, 64, true, 0, 0, deterministic);
    run(2, 8192, 32, 8, 128, true, 0, 0, deterministic);
  }
  run(256, 197, 12, 12, 64, false, 0, 0, false);
  run(2, 8192, 32, 8, 128, true, 1024, 0, false);
  run(2, 8192, 32, 8, 128, true, 0, 2048, false);
  const Tensor x = normal({2, 64, 3 * 4 * 64});
  const AttentionOp::Shape shape{4, 4, {true, 0, {}}};
  AttentionOp::kKernels.cuda.forward(x, shape);
  cudaDeviceSynchronize();
  const auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) AttentionOp::kKernels.cuda.forward(x, shape);
  std::printf("host us a forward %.1f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() * 1e3);
  cudaDeviceSynchronize();
}
