// SPDX-License-Identifier: MIT
#include "kernels/runtime/traced.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "kernels/runtime/traced_sums.h"

namespace strata::kernels {
namespace {

constexpr std::string_view kTooManyBytes = "its tensors would take more than 2^60 bytes";

}  // namespace

// The counts of one Tracing. Its blocks share them, because tensors may outlive the Tracing.
class TracedMemory {
 public:
  struct Block {
    std::shared_ptr<TracedMemory> memory;
    int64_t bytes, asked_for;
    int64_t recording = 0;  // the number of the recording that has it at `index`; 0: none
    size_t index = 0;
  };

  explicit TracedMemory(int64_t unit) : unit_(unit) {}

  Block* allocate(const std::shared_ptr<TracedMemory>& self, int64_t bytes) {
    TORCH_CHECK_VALUE(bytes <= kMostTracedBytes - current_bytes(), kTooManyBytes);
    auto* block = new Block{self, rounded(bytes), bytes};
    const std::lock_guard lock(mutex_);
    if (results_only_ > 0) {
      uncounted_.insert(block);
    } else {
      add(*block);
    }
    return block;
  }
  void free(Block* block) {
    {
      const std::lock_guard lock(mutex_);
      if (uncounted_.erase(block) == 0) remove(*block);
    }
    delete block;
  }

  void workspace(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    Block block{nullptr, rounded(bytes), bytes};
    add(block);
    remove(block);
  }

  void begin_results_only() {
    const std::lock_guard lock(mutex_);
    ++results_only_;
  }
  void end_results_only() {
    const std::lock_guard lock(mutex_);
    if (--results_only_ > 0) return;
    for (Block* block : uncounted_) add(*block);
    uncounted_.clear();
  }

  int64_t current_bytes() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  int64_t peak_bytes() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = current_;
    peak_place_ = place_;
  }
  void set_place(std::string place) {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
  }
  void set_op(std::string op) {
    const std::lock_guard lock(mutex_);
    op_ = std::move(op);
  }
  const std::string& peak_place() const {
    const std::lock_guard lock(mutex_);
    return peak_place_;
  }
  void record() {
    const std::lock_guard lock(mutex_);
    is_recording_ = true;
    ++recording_;
    events_ = 0;
    recorded_.clear();
  }
  std::vector<TracedBlock> take_recorded() {
    const std::lock_guard lock(mutex_);
    is_recording_ = false;
    return std::exchange(recorded_, {});
  }

 private:
  int64_t rounded(int64_t bytes) const { return (bytes + unit_ - 1) / unit_ * unit_; }
  void add(Block& block) {
    if (is_recording_) {
      block.recording = recording_;
      block.index = recorded_.size();
      recorded_.push_back({block.bytes, events_++, -1, place_, op_});
    }
    current_ += block.bytes;
    if (current_ <= peak_) return;
    peak_ = current_;
    peak_place_ = place_;
  }

  void remove(const Block& block) {
    current_ -= block.bytes;
    if (!is_recording_) return;
    if (block.recording == recording_) {
      recorded_[block.index].end = events_++;
    } else {
      recorded_.push_back({-block.bytes, events_++, -1, place_, op_});
    }
  }

  const int64_t unit_;
  mutable std::mutex mutex_;
  int64_t current_ = 0, peak_ = 0;
  std::string place_, peak_place_;
  int results_only_ = 0;
  std::unordered_set<Block*> uncounted_;
  bool is_recording_ = false;
  int64_t recording_ = 0, events_ = 0;
  std::string op_;
  std::vector<TracedBlock> recorded_;
};

namespace {

#ifdef __SANITIZE_THREAD__
constexpr int kRangeBits = 40;  // ThreadSanitizer leaves programs no more in one piece
#else
constexpr int kRangeBits = 45;
#endif
constexpr size_t kRange = size_t{1} << kRangeBits;  // bytes of addresses; no memory belongs to them
constexpr size_t kAlignment = 512;                  // alignment of every address, as on GPUs
constexpr int64_t kGpuUnit = 512;  // CUDA's caching allocator rounds sizes up to it; small blocks are exact

// The Tracing that lives. `device` is read without the lock, for every tensor that an op is given.
std::mutex mutex;
std::shared_ptr<TracedMemory> current;
constexpr auto kNone = c10::kMeta;
std::atomic<c10::DeviceType> device_of_meta = kNone;

std::shared_ptr<TracedMemory> current_memory() {
  const std::lock_guard lock(mutex);
  return current;
}

// Gives addresses that nobody can read or write. A kernel that is launched by mistake ends the process at its first
// access.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const std::shared_ptr<TracedMemory> memory = current_memory();
    void* const address = bytes == 0 ? nullptr : next_address(bytes);
    if (memory == nullptr) return {address, c10::Device(c10::kMeta)};
    c10::reportMemoryUsageToProfiler(address, static_cast<int64_t>(bytes), 0, 0, c10::kMeta);
    return {address, memory->allocate(memory, static_cast<int64_t>(bytes)), &free, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  static void free(void* context) {
    auto* block = static_cast<TracedMemory::Block*>(context);
    const std::shared_ptr<TracedMemory> memory = block->memory;
    // A listener in one Tracing was not told of the blocks of an earlier one, so it must not be told that they are
    // freed.
    if (memory == current_memory()) c10::reportMemoryUsageToProfiler(nullptr, -block->asked_for, 0, 0, c10::kMeta);
    memory->free(block);
  }

  // Addresses are given again after half of the range, and larger tensors reach beyond it. This does no harm, because
  // nothing is stored there.
  void* next_address(size_t bytes) {
    static char* const begin = reserved();
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin + next_.fetch_add(rounded) % (kRange / 2);
  }
  static char* reserved() {
    void* const begin = mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "cannot reserve ", kRange, " bytes of addresses, which need no memory; is the ",
                "address space limited (ulimit -v)?");
    return static_cast<char*>(begin);
  }

  std::atomic<size_t> next_ = 0;
};

}  // namespace

struct Tracing::Parts {
  Parts(std::shared_ptr<TracedMemory> memory, c10::Allocator* previous)
      : memory(std::move(memory)), previous(previous) {}

  std::shared_ptr<TracedMemory> memory;
  c10::Allocator* previous;  // the allocator of meta tensors before
  SumsInPlace sums;
};

Tracing::Tracing(c10::DeviceType device) {
  TORCH_CHECK(device == c10::kCPU || device == c10::kCUDA, "tensors without values stand for tensors on ",
              c10::DeviceTypeName(device, /*lower_case=*/true), ", expected cpu or cuda");
  static auto* allocator = new CountingAllocator;  // tensors may outlive every static object
  [[maybe_unused]] static const bool added = (add_meta_kernels(), true);
  const auto memory = std::make_shared<TracedMemory>(device == c10::kCUDA ? kGpuUnit : 1);
  {
    const std::lock_guard lock(mutex);
    TORCH_CHECK(current == nullptr, "another Tracing lives in this process, expected none");
    current = memory;
    device_of_meta = device;
  }
  parts_ = std::make_unique<Parts>(memory, c10::GetAllocator(c10::kMeta));
  c10::SetAllocator(c10::kMeta, allocator, /*priority=*/1);
}

Tracing::~Tracing() {
  c10::SetAllocator(c10::kMeta, parts_->previous, /*priority=*/1);
  const std::lock_guard lock(mutex);
  current = nullptr;
  device_of_meta = kNone;
}

int64_t Tracing::current_bytes() const { return parts_->memory->current_bytes(); }
int64_t Tracing::peak_bytes() const { return parts_->memory->peak_bytes(); }
void Tracing::reset_peak() { parts_->memory->reset_peak(); }
void Tracing::set_place(std::string place) { parts_->memory->set_place(std::move(place)); }
void Tracing::set_op(std::string op) { parts_->memory->set_op(std::move(op)); }
void Tracing::record() { parts_->memory->record(); }
std::vector<TracedBlock> Tracing::take_recorded() { return parts_->memory->take_recorded(); }
const std::string& Tracing::peak_place() const { return parts_->memory->peak_place(); }

// The second and the third text are of LibTorch. An error may have passed its interpreter, which keeps the text alone.
bool is_too_large_to_trace(const std::exception& error) {
  const std::string_view text = error.what();
  for (const std::string_view part : {kTooManyBytes, std::string_view("Storage size calculation overflowed"),
                                      std::string_view("numel: integer multiplication overflow")}) {
    if (text.find(part) != text.npos) return true;
  }
  return false;
}

bool is_tracing() { return device_of_meta.load(std::memory_order_relaxed) != kNone; }

c10::DeviceType traced_device(c10::DeviceType device) {
  return device == c10::kMeta ? device_of_meta.load(std::memory_order_relaxed) : device;
}

void traced_workspace(int64_t bytes) {
  if (!is_tracing()) return;
  if (const auto memory = current_memory()) memory->workspace(bytes);
}

ResultsOnly::ResultsOnly() : memory_(is_tracing() ? current_memory() : nullptr) {
  if (memory_ != nullptr) memory_->begin_results_only();
}

ResultsOnly::~ResultsOnly() {
  if (memory_ != nullptr) memory_->end_results_only();
}

}  // namespace strata::kernels
