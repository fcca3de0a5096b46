// SPDX-License-Identifier: MIT
// A micro-batch: tensors whose meaning only their task knows, and the place of their samples in the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace strata::trainer {

using at::Tensor;

// Gives what a tensor is replaced by.
using ReplaceTensor = std::function<Tensor(const Tensor&)>;

// What a task puts into a micro-batch: with_each gives the same with each of its tensors replaced, always in the same
// order. It takes the content apart by a structured binding, so that a new tensor does not compile until it is there.
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

  // What the task put in; throws when it was of another type.
  template <BatchContent Content>
  const Content& as() const {
    const auto* held = dynamic_cast<const Of<Content>*>(held_.get());
    if (held == nullptr) throw Error(ExitCode::internal, "a task was given the micro-batch of another one");
    return held->content;
  }

  // The same batch with each of its tensors replaced that is defined.
  MicroBatch with_each(const ReplaceTensor& replaced) const {
    MicroBatch result = *this;
    if (held_) result.held_ = held_->with_each([&](const Tensor& t) { return t.defined() ? replaced(t) : t; });
    return result;
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all;
    with_each([&](const Tensor& tensor) { return all.emplace_back(tensor); });
    return all;
  }
  // The same batch in the tensors of `places`, which are of the same shapes.
  MicroBatch copied_to(const MicroBatch& places) const {
    const std::vector<Tensor> all = places.tensors();
    auto next = all.begin();
    return with_each([&](const Tensor& tensor) { return (next++)->copy_(tensor, /*non_blocking=*/true); });
  }

  int64_t first_sample = 0;  // of the step, over all ranks: randomness is keyed by it

 private:
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
