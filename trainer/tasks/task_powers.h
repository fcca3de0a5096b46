// SPDX-License-Identifier: MIT
// Optional powers of tasks. A user of a power asks a task for it once, at the start, by dynamic_cast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "sharding/communication/communicator.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// The ranks share each sample: a rank computes a part of every sample.
class SharesSamples {
 public:
  virtual ~SharesSamples() = default;
  // Called once, before build_model, with the communicator of all ranks, which outlives the task.
  virtual void share_samples(sharding::Communicator& world) = 0;
};

// The ranks of a group share each sequence of a sample: each rank has the same samples and computes a part of their
// tokens. Groups have samples of their own.
class SplitsSequences {
 public:
  virtual ~SplitsSequences() = default;
  // Called once, before build_model, with the communicator of the group, which outlives the task.
  virtual void split_sequences(sharding::Communicator& group) = 0;
};

// The data may have samples that turn out to be unusable only when they are read.
class FindsBadSamples {
 public:
  virtual ~FindsBadSamples() = default;
  // Returns how many samples of the batch can be used: fp32, 0-dim, on its device. The others add 0 to loss and
  // gradient.
  virtual Tensor usable_samples(const MicroBatch& batch) const = 0;
  // Returns the bad samples that this rank has found and not yet returned: a line for each.
  virtual std::vector<std::string> take_bad_samples() const = 0;
  struct Limit {
    int64_t most = 0;
    std::string rule;  // the source of the limit, for the message
  };
  // Bad samples are skipped until there are too many on all ranks. Returns nothing if the data were checked as a whole.
  virtual std::optional<Limit> bad_sample_limit() const = 0;
};

// Some items of a sample may be ignored: they have no loss, as the first tokens of packed documents, and tokens of
// a prefix, which attention shows to the tokens before them. The loss is the mean over the others.
class HasIgnoredItems {
 public:
  virtual ~HasIgnoredItems() = default;
  // False: all items of all samples have a loss.
  virtual bool has_ignored_items() const = 0;
  // Returns how many items of the batch have a loss: fp32, 0-dim, on its device.
  virtual Tensor items_with_loss(const MicroBatch& batch) const = 0;
};

// Returns the power of a task whose samples may be unusable. Null: the data were checked as a whole, or all can be
// used.
inline const FindsBadSamples* bad_sample_finder(const Task& task) {
  const auto* finds = dynamic_cast<const FindsBadSamples*>(&task);
  return finds != nullptr && finds->bad_sample_limit() ? finds : nullptr;
}

// Returns the power of a task that ignores items. Null: all items of a sample have a loss.
inline const HasIgnoredItems* ignored_items_of(const Task& task) {
  const auto* ignores = dynamic_cast<const HasIgnoredItems*>(&task);
  return ignores != nullptr && ignores->has_ignored_items() ? ignores : nullptr;
}

// An evaluation can show what the model says of single samples.
class ShowsSamples {
 public:
  virtual ~ShowsSamples() = default;
  // Returns what shown_values() has of each item, in its order.
  virtual std::vector<std::string> shown_names() const = 0;
  // Runs the model without dropout and returns fp64 [B, names, items] on its device. Only the first items of a long
  // sample are shown. What does not exist is NaN, and what other ranks compute is 0.
  virtual Tensor shown_values(const MicroBatch& batch) const = 0;
};

// A sample may be several documents, which attention keeps apart.
class PacksDocuments {
 public:
  virtual ~PacksDocuments() = default;
  // Returns the lengths of the documents of up to 64 samples of the training data, which are spread evenly over it.
  // Empty: each sample is one document, or the task is without data.
  virtual modules::DocumentLengths document_lengths() const = 0;
};

inline modules::DocumentLengths document_lengths(const Task& task) {
  const auto* packs = dynamic_cast<const PacksDocuments*>(&task);
  return packs != nullptr ? packs->document_lengths() : modules::DocumentLengths();
}

// Tells the task of its communicator if the task shares samples.
inline void share_samples(Task& task, sharding::Communicator& world) {
  if (auto* shares = dynamic_cast<SharesSamples*>(&task)) shares->share_samples(world);
}
// The same for sequences. `group` is null if each rank computes whole sequences.
inline void split_sequences(Task& task, sharding::Communicator* group) {
  auto* splits = dynamic_cast<SplitsSequences*>(&task);
  if (splits != nullptr && group != nullptr) splits->split_sequences(*group);
}

}  // namespace strata::trainer
