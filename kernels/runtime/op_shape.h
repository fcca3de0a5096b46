// SPDX-License-Identifier: MIT
// OpShape: the size of one op, for reports of calls, proofs at full size, timing and plans; and the minimal work of the
// op at this size.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::kernels {

// The minimal work: every input is read, every result written and every product computed once. bytes 0: there is no
// work.
struct Work {
  double bytes = 0, flops = 0;
};

// Bytes of an int64 index; bytes of an fp32 mean, rstd or logsumexp per row.
inline constexpr double kIndexBytes = 8, kStatisticBytes = 4;

// A struct of kernels/<op>/<op>_shape.h: an aggregate with a name for each size. Equal shapes have equal texts.
// `element_bytes` is the size of the dtype. The backward computes the op's gradients from the gradients of its results.
template <class Shape>
concept ShapeOfOp = std::equality_comparable<Shape> && requires(const Shape& shape, double element_bytes) {
  { shape.op() } -> std::convertible_to<std::string_view>;
  { shape.text() } -> std::convertible_to<std::string>;
  { shape.forward_work(element_bytes) } -> std::same_as<Work>;
  { shape.backward_work(element_bytes) } -> std::same_as<Work>;
};

// A value that holds the shape of any op. The virtual functions are here and not in the shapes, because a class that
// has them cannot be initialized with named fields.
class OpShape {
 public:
  template <ShapeOfOp Shape>
  OpShape(Shape shape)  // NOLINT(google-explicit-constructor): a LinearShape is an OpShape
      : held_(std::make_shared<const Held<Shape>>(std::move(shape))) {}

  std::string_view op() const { return held_->op(); }  // "add_rms_norm"
  // The key of `kernels:` that chooses the level of the op: rms_norm for add_rms_norm, activation for swiglu.
  std::string_view key() const { return held_->key(); }
  // Examples: "16384x4096", "65536x768->3072 gelu_tanh bias", "8x1024 positions, 12 heads of 64, causal"
  // <op>_programs.py reads this text.
  std::string text() const { return held_->text(); }
  Work forward_work(double element_bytes) const { return held_->forward_work(element_bytes); }
  Work backward_work(double element_bytes) const { return held_->backward_work(element_bytes); }

  // Returns null if it is the shape of another op.
  template <ShapeOfOp Shape>
  const Shape* as() const {
    const auto* held = dynamic_cast<const Held<Shape>*>(held_.get());
    return held ? &held->shape : nullptr;
  }

  bool operator==(const OpShape& other) const { return held_ == other.held_ || held_->equals(*other.held_); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual std::string_view op() const = 0;
    virtual std::string_view key() const = 0;
    virtual std::string text() const = 0;
    virtual Work forward_work(double element_bytes) const = 0;
    virtual Work backward_work(double element_bytes) const = 0;
    virtual bool equals(const Any& other) const = 0;
  };

  template <class Shape>
  struct Held final : Any {
    explicit Held(Shape given) : shape(std::move(given)) {}
    std::string_view op() const override { return shape.op(); }
    std::string_view key() const override {
      if constexpr (requires { shape.key(); }) return shape.key();
      return shape.op();
    }
    std::string text() const override { return shape.text(); }
    Work forward_work(double element_bytes) const override { return shape.forward_work(element_bytes); }
    Work backward_work(double element_bytes) const override { return shape.backward_work(element_bytes); }
    bool equals(const Any& other) const override {
      const auto* same = dynamic_cast<const Held*>(&other);
      return same != nullptr && same->shape == shape;
    }

    Shape shape;
  };

  std::shared_ptr<const Any> held_;
};

// Returns the sizes as in "16384x4096".
std::string sizes_text(const std::vector<int64_t>& sizes);
// Returns "8x1024 positions, 12 heads of 64", with "12/4 heads" if 12 heads share 4 heads of keys and values.
std::string heads_text(int64_t batch, int64_t positions, int64_t heads, int64_t key_value_heads, int64_t head_width);

}  // namespace strata::kernels
