// SPDX-License-Identifier: MIT
#include <ATen/TensorOperators.h>
#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <cstring>
#include "kernels/gemm.h"
#include "kernels/linear/linear.h"
#include "tests/scratch_gemm/timing.h"
using namespace strata::kernels;
namespace {
Tensor normal(std::vector<int64_t> sizes, double scale) { return (at::randn(sizes, at::TensorOptions(at::kCUDA).dtype(at::kFloat)) * scale).to(at::kBFloat16); }
double apart(const Tensor& a, const Tensor& b) { return ((a.to(at::kFloat) - b.to(at::kFloat)).abs().max() / b.to(at::kFloat).abs().max()).item<double>(); }
void run(int64_t n, int64_t in, int64_t out, Activation kind, bool has_bias) {
  constexpr int kSets = 2;
  std::vector<Tensor> x, g, y;
  for (int i = 0; i < kSets; ++i) { x.push_back(normal({n, in}, 1)); g.push_back(normal({n, out}, 1)); }
  const Tensor w = normal({out, in}, 1 / std::sqrt(double(in))), b = has_bias ? normal({out}, 1) : Tensor();
  const Tensor into = at::zeros({out, in}, x[0].options().dtype(at::kFloat));
  const auto& aten = LinearOp::kKernels.aten; const auto& cuda = LinearOp::kKernels.cuda;
  // checked first
  const LinearOp::GradientTargets targets{true, {into, false}, {}};
  {
    const auto a = aten.forward(x[0], w, b, kind), c = cuda.forward(x[0], w, b, kind);
    const auto ga = aten.backward(g[0], x[0], w, has_bias, a.pre_activation, kind, {true, {}, {}});
    const auto gc = cuda.backward(g[0], x[0], w, has_bias, c.pre_activation, kind, targets);
    std::printf("  check y %.1e gx %.1e gw %.1e gb %.1e\n", apart(c.y, a.y), apart(gc.x, ga.x), apart(into, ga.weight), has_bias ? apart(gc.bias, ga.bias) : 0.0);
  }
  std::vector<LinearOp::Output> outs(kSets);
  for (int i = 0; i < kSets; ++i) outs[i] = cuda.forward(x[i], w, b, kind);
  const double flop = 2.0 * n * in * out;
  const auto f = time_calls([&](int i) { cuda.forward(x[i % kSets], w, b, kind); });
  const auto r = time_calls([&](int i) { cuda.backward(g[i % kSets], x[i % kSets], w, has_bias, outs[i % kSets].pre_activation, kind, targets); });
  const auto af = time_calls([&](int i) { aten.forward(x[i % kSets], w, b, kind); });
  const auto ar = time_calls([&](int i) { aten.backward(g[i % kSets], x[i % kSets], w, has_bias, outs[i % kSets].pre_activation, kind, {true, {}, {}}); });
  const auto dg = time_calls([&](int i) { gemm("linear", {.a = g[i % kSets], .b = w, .out = x[i % kSets]}); });
  const auto wg = time_calls([&](int i) { gemm("linear", {.a = g[i % kSets].t(), .b = x[i % kSets], .out = into}); });
  const auto wa = time_calls([&](int i) { gemm("linear", {.a = g[i % kSets].t(), .b = x[i % kSets], .out = into, .add = true}); });
  std::printf("%ld x %ld -> %ld %s%s: fwd %.3f ms %.0f TF (best %.0f), bwd %.3f ms %.0f TF | aten fwd %.0f bwd %.0f | dgrad %.0f wgrad fp32 %.0f, added %.0f TF\n", n, in, out, std::string(name(kind)).c_str(), has_bias ? " bias" : "",
    f.median, flop / f.median * 1e-9, flop / f.least * 1e-9, r.median, 2 * flop / r.median * 1e-9, flop / af.median * 1e-9, 2 * flop / ar.median * 1e-9, flop / dg.median * 1e-9, flop / wg.median * 1e-9, flop / wa.median * 1e-9);
  std::fflush(stdout);
}
// The pair up + gelu, down: gradient through DGELU_BGRAD in the down's product.
void pair(int64_t n, int64_t width, int64_t inner) {
  const Tensor gy = normal({n, width}, 1), w2 = normal({width, inner}, 1 / std::sqrt(double(inner))), pre = normal({n, inner}, 1);
  const Tensor fused = at::zeros({n, inner}, gy.options()), plain = at::zeros({n, inner}, gy.options()), bias = at::zeros({inner}, gy.options());
  const bool there = try_gemm("linear", {.a = gy, .b = w2, .out = fused, .bias = bias, .epilogue = Epilogue::gelu_tanh_gradient, .pre_activation = pre});
  std::printf("DGELU_BGRAD %s", there ? "there: " : "none\n");
  if (!there) return;
  gemm("linear", {.a = gy, .b = w2, .out = plain});
  const Tensor pf = pre.to(at::kFloat), u = 0.7978845608028654 * (pf + 0.044715 * pf * pf * pf), t = u.tanh();
  const Tensor d = 0.5 * (1 + t) + 0.5 * pf * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * pf * pf);
  const Tensor expected = plain.to(at::kFloat) * d;
  std::printf("check %.1e bias %.1e; ", apart(fused, expected), apart(bias, expected.sum(0)));
  const double flop = 2.0 * n * width * inner;
  const auto a = time_calls([&](int) { gemm("linear", {.a = gy, .b = w2, .out = plain}); });
  const auto c = time_calls([&](int) { try_gemm("linear", {.a = gy, .b = w2, .out = fused, .bias = bias, .epilogue = Epilogue::gelu_tanh_gradient, .pre_activation = pre}); });
  const Tensor first = bias.clone(); try_gemm("linear", {.a = gy, .b = w2, .out = fused, .bias = bias, .epilogue = Epilogue::gelu_tanh_gradient, .pre_activation = pre});
  const auto e = time_calls([&](int) { try_gemm("linear", {.a = gy, .b = w2, .out = fused, .epilogue = Epilogue::gelu_tanh_gradient, .pre_activation = pre}); });
  std::printf("plain %.0f TF, with DGELU %.0f TF, with DGELU_BGRAD %.0f TF, bias bits same %d\n", flop / a.median * 1e-9, flop / e.median * 1e-9, flop / c.median * 1e-9, int(first.equal(bias)));
}
}  // namespace
int main() {
  std::printf("timed algorithms\n");
  run(65536, 768, 3072, Activation::gelu_tanh, true);
  run(65536, 768, 3072, Activation::gelu, true);
  run(65536, 768, 3072, Activation::none, true);
  run(65536, 3072, 768, Activation::none, true);
  run(65536, 768, 2304, Activation::none, true);
  run(16384, 4096, 14336, Activation::none, false);
  pair(65536, 768, 3072);
  at::globalContext().setDeterministicAlgorithms(true, true);
  std::printf("deterministic (first of the heuristics)\n");
  run(65536, 768, 3072, Activation::gelu_tanh, true);
  at::globalContext().setDeterministicAlgorithms(false, false);
  const Tensor x = normal({64, 64}, 1), w = normal({64, 64}, 1);
  for (int round = 0; round < 2; ++round) {
    const auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) LinearOp::kKernels.cuda.forward(x, w, {}, Activation::none);
    std::printf("host us a call %.1f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() * 1e3);
    cudaDeviceSynchronize();
  }
}
