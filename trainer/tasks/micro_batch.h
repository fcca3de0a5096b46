// SPDX-License-Identifier: MIT
// A micro-batch: tensors whose meaning only their task knows, and the position of its samples in the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace strata::trainer {

using at::Tensor;

// Returns the replacement of a tensor.
using ReplaceTensor = std::function<Tensor(const Tensor&)>;

// A type that a task can put into a micro-batch. with_each(content, replaced) returns a copy with each tensor replaced,
// always in the same order. It uses a structured binding, so that a new tensor does not compile until it is listed.
template <class Content>
concept BatchContent = requires(const Content& content, const ReplaceTensor& replaced) {
  { with_each(content, replaced) } -> std::same_as<Content>;
};

template <BatchContent Content>
Content replace_each(const Content& content, const ReplaceTensor& replaced) {
  return with_each(content, replaced);
}

class MicroBatch {
 public:
  MicroBatch() = default;
  template <BatchContent Content>
  MicroBatch(Content content, int64_t first_sample = 0)
      : first_sample(first_sample), held_(std::make_shared<const Of<Content>>(std::move(content))) {}

  // Returns the content. Throws if it has another type.
  template <BatchContent Content>
  const Content& as() const {
    const auto* held = dynamic_cast<const Of<Content>*>(held_.get());
    if (held == nullptr) throw Error(ExitCode::internal, "a task was given the micro-batch of another one");
    return held->content;
  }

  // Returns the same batch with each defined tensor replaced.
  MicroBatch with_each(const ReplaceTensor& replaced) const {
    MicroBatch result = *this;
    if (held_) result.held_ = held_->with_each([&](const Tensor& t) { return t.defined() ? replaced(t) : t; });
    return result;
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> result;
    with_each([&](const Tensor& tensor) { return result.emplace_back(tensor); });
    return result;
  }
  // Copies the batch into the tensors of `places`, and returns it there. Throws if their number or a shape differs: a
  // copy would broadcast, and leave numbers of another batch.
  MicroBatch copied_to(const MicroBatch& places) const {
    const std::vector<Tensor> targets = places.tensors(), sources = tensors();
    require_same_shapes(sources, targets);
    auto next = targets.begin();
    return with_each([&](const Tensor& tensor) { return (next++)->copy_(tensor, /*non_blocking=*/true); });
  }

  int64_t first_sample = 0;  // number of its first sample in the step, over all ranks; random choices are keyed by it

 private:
  static void require_same_shapes(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    const auto text = [](const std::vector<Tensor>& tensors) {
      std::ostringstream shapes;
      for (const Tensor& tensor : tensors) shapes << tensor.sizes();
      return shapes.str();
    };
    const auto same_sizes = [](const Tensor& one, const Tensor& two) { return one.sizes() == two.sizes(); };
    if (std::ranges::equal(found, expected, same_sizes)) return;
    throw Error(ExitCode::internal, "a micro-batch has tensors of " + text(found) + ", expected " + text(expected) +
                                        ", because it is copied there; give a feed of graphs own_graphs");
  }
  struct Held {
    virtual ~Held() = default;
    virtual std::shared_ptr<const Held> with_each(const ReplaceTensor& replaced) const = 0;
  };
  template <class Content>
  struct Of final : Held {
    explicit Of(Content content) : content(std::move(content)) {}
    std::shared_ptr<const Held> with_each(const ReplaceTensor& replaced) const override {
      return std::make_shared<const Of>(replace_each(content, replaced));
    }
    const Content content;
  };
  std::shared_ptr<const Held> held_;
};

}  // namespace strata::trainer
