// SPDX-License-Identifier: MIT
#include "sharding/communication/mpi_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "base/crash_stack.h"
#include "base/errors.h"
#include "sharding/process/failure.h"

namespace strata::sharding {
namespace {

constexpr int kControlTag = 0;
// An answer has the two texts of a wait, three numbers, and the step and phase of the rank. A longer message would be
// an error of MPI on the other rank, so its end is cut.
constexpr size_t kControlBytes = 1024;
static_assert(kControlBytes >= 2 * Watchdog::kLongestText + 200);
constexpr auto kIdle = std::chrono::milliseconds(100);  // longest delay of an answer to another rank
constexpr int kPollsPerAnswer = 64;                     // polls between two checks for questions
constexpr int kYieldingPolls = 2000;  // about 1 ms; after that the peer is computing, and sleeping costs little
constexpr long kNap = 20'000;         // nanoseconds; grows to ten times that while no message arrives

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ExitCode::communication,
              std::string(what) + " failed: " + std::string(text, static_cast<size_t>(length)));
}

[[noreturn]] void throw_first_of(const std::vector<MPI_Status>& statuses) {
  for (const MPI_Status& status : statuses) {
    if (status.MPI_ERROR != MPI_ERR_PENDING)
      check(status.MPI_ERROR, ("a message from rank " + std::to_string(status.MPI_SOURCE)).c_str());
  }
  throw Error(ExitCode::communication, "a message failed");
}

std::string position_text() {
  const Failure here = failure_here(ExitCode::done, "");
  return "step " + std::to_string(here.step) + ", " + here.phase;
}

}  // namespace

struct MpiThread::Job : PendingCollective::State {
  Job(MpiThread& its_thread, Watchdog::Wait its_name, std::function<void()> its_body)
      : thread(its_thread), name(std::move(its_name)), body(std::move(its_body)) {}

  void wait() override {
    if (!done) {
      std::unique_lock lock(thread.mutex_);
      ++thread.waiters_;
      thread.finished_.wait(lock, [this] { return done.load(); });
      --thread.waiters_;
    }
    if (error) std::rethrow_exception(error);
  }

  MpiThread& thread;
  Watchdog::Wait name;
  std::function<void()> body;
  std::exception_ptr error;
  std::atomic<bool> done{false};
};

struct MpiThread::Answer {
  std::string text;
  MPI_Request request = MPI_REQUEST_NULL;
};

MpiThread::MpiThread(Watchdog& watchdog, const std::string& who) : watchdog_(watchdog), incoming_text_(kControlBytes) {
  auto started = std::make_shared<Job>(*this, Watchdog::Wait{Watchdog::kStart, who}, [this] {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    int* highest_tag = nullptr;
    int known = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &known), "MPI_Comm_get_attr");
    if (known) tags_ = TagLayout(*highest_tag);
    answer_peers();
  });
  jobs_.push_back(started);
  thread_ = std::thread([this] { serve(); });
  try {
    started->wait();
  } catch (...) {
    abandon();
    throw;
  }
  watchdog_.connect({[this](double seconds) { return ask_peers(seconds); }, [](int code) { abort(code); }});
}

MpiThread::~MpiThread() {
  if (thread_.joinable()) abandon();
}

std::shared_ptr<PendingCollective::State> MpiThread::submit(Watchdog::Wait name, std::function<void()> body) {
  auto job = std::make_shared<Job>(*this, std::move(name), std::move(body));
  {
    const std::lock_guard lock(mutex_);
    if (closing_)
      throw Error(ExitCode::communication, job->name.text() + " was started after the end of the communication");
    jobs_.push_back(job);
  }
  queued_.notify_one();
  return job;
}

void MpiThread::use_group(int group) { highest_group_ = std::max(highest_group_.load(), group); }

void MpiThread::finalize() {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::make_shared<Job>(*this, Watchdog::Wait{"", "the end of MPI"}, [this] {
      for (Answer& answer : outgoing_) {
        if (answer.request != MPI_REQUEST_NULL) MPI_Request_free(&answer.request);
      }
      MPI_Cancel(&incoming_);
      MPI_Wait(&incoming_, MPI_STATUS_IGNORE);
      check(MPI_Finalize(), "MPI_Finalize");
    }));
    closing_ = true;
  }
  queued_.notify_one();
  thread_.join();
  watchdog_.connect({});
}

void MpiThread::abandon() {
  abandoned_ = true;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  queued_.notify_one();
  thread_.join();
  watchdog_.connect({});
}

void MpiThread::abort(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

void MpiThread::serve() {
  const CrashStack crash_stack;
  pthread_setname_np(pthread_self(), "communication");
  prctl(PR_SET_TIMERSLACK, 1000);  // sleeps 20 us instead of 70 us: the default slack is 50 us
  std::exception_ptr broken;       // after an error, messages no longer match, so all later jobs fail too
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      queued_.wait_for(lock, kIdle, [this] { return !jobs_.empty() || closing_ || question_; });
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      } else if (closing_) {
        return;
      }
    }
    if (!job) {
      if (broken) {
        // MPI is not called any more, because its progress could use the memory of messages that were given up. A
        // question that stays would wake this thread again and again.
        question_ = false;
        continue;
      }
      try {
        answer_peers();
      } catch (...) {
        broken = std::current_exception();
      }
      continue;
    }
    if (!broken && abandoned_)
      broken = std::make_exception_ptr(Error(ExitCode::communication, "the communication was given up after an error"));
    if (!broken) {
      const int64_t watched = watchdog_.begin(job->name);
      try {
        job->body();
      } catch (...) {
        broken = std::current_exception();
      }
      watchdog_.end(watched);
    }
    job->body = nullptr;
    job->error = broken;
    {
      const std::lock_guard lock(mutex_);
      job->done = true;
    }
    finished_.notify_all();
  }
}

void MpiThread::Exchange::send(int rank, int tag, const void* data, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const size_t chunk = std::min(bytes - sent, thread_.largest_message_.load());
    check(MPI_Isend(static_cast<const std::byte*>(data) + sent, static_cast<int>(chunk), MPI_BYTE, rank, tag,
                    MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
    expected_.push_back(-1);
    sent += chunk;
  }
}

void MpiThread::Exchange::receive(int rank, int tag, void* data, size_t bytes) {
  for (size_t received = 0; received < bytes;) {
    const size_t chunk = std::min(bytes - received, thread_.largest_message_.load());
    check(MPI_Irecv(static_cast<std::byte*>(data) + received, static_cast<int>(chunk), MPI_BYTE, rank, tag,
                    MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
    expected_.push_back(static_cast<int>(chunk));
    received += chunk;
  }
}

MpiThread::Exchange::~Exchange() {
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiThread::Exchange::complete() {
  check_sizes(thread_.complete(requests_));
  requests_.clear();
  expected_.clear();
}

void MpiThread::Exchange::check_sizes(const std::vector<MPI_Status>& statuses) const {
  for (size_t i = 0; i < statuses.size(); ++i) {
    int bytes = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
    if (expected_[i] >= 0 && bytes != expected_[i])
      throw Error(ExitCode::communication, thread_.watchdog_.waits_for().text() + ": rank " +
                                               std::to_string(statuses[i].MPI_SOURCE) + " sent " +
                                               std::to_string(bytes) + " bytes, rank " + std::to_string(thread_.rank_) +
                                               " expected " + std::to_string(expected_[i]));
  }
}

std::byte* MpiThread::staging(size_t bytes) {
  if (staging_.size() < bytes) staging_.resize(bytes);
  return staging_.data();
}

std::vector<MPI_Status> MpiThread::complete(std::vector<MPI_Request>& requests) {
  std::vector<MPI_Status> statuses(requests.size());
  for (int polls = 0;; ++polls) {
    int all = 0;
    const int result = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, statuses.data());
    if (result == MPI_ERR_IN_STATUS) throw_first_of(statuses);
    check(result, "MPI_Testall");
    if (all) return statuses;
    if (abandoned_) throw Error(ExitCode::communication, "the communication was given up after an error");
    if (polls % kPollsPerAnswer == kPollsPerAnswer - 1) answer_peers();
    pause(polls);
  }
}

// While a caller is blocked, its core is free, so this thread only yields the core. Otherwise the core belongs to the
// computation, and this thread sleeps.
void MpiThread::pause(int polls) {
  const int yields = waiters_ > 0 ? kYieldingPolls : 0;
  if (polls < yields) {
    sched_yield();
  } else {
    const timespec nap = {.tv_sec = 0, .tv_nsec = kNap * (1 + std::min(polls - yields, 180) / 20)};
    nanosleep(&nap, nullptr);
  }
}

void MpiThread::answer_peers() {
  outgoing_.remove_if([](Answer& answer) {
    int sent = 0;
    check(MPI_Test(&answer.request, &sent, MPI_STATUS_IGNORE), "an answer");
    return sent != 0;
  });
  auto send = [this](int to, std::string text) {
    text.resize(std::min(text.size(), kControlBytes));
    Answer& answer = outgoing_.emplace_back(Answer{std::move(text)});
    check(MPI_Isend(answer.text.data(), static_cast<int>(answer.text.size()), MPI_CHAR, to, kControlTag, MPI_COMM_WORLD,
                    &answer.request),
          "MPI_Isend");
  };
  if (question_.exchange(false)) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) send(rank, "?");
    }
  }
  for (;;) {
    if (incoming_ != MPI_REQUEST_NULL) {
      int came = 0, bytes = 0;
      MPI_Status status;
      check(MPI_Test(&incoming_, &came, &status), "a question");
      if (!came) return;
      MPI_Get_count(&status, MPI_CHAR, &bytes);
      const std::string text(incoming_text_.data(), static_cast<size_t>(bytes));
      if (text == "?") {
        const Watchdog::PeerState own = watchdog_.state();
        send(status.MPI_SOURCE, (own.wait.handshake ? "1 " : "0 ") + std::to_string(own.begun) +
                                    (own.queued ? " 1\n" : " 0\n") + position_text() + '\n' + own.wait.place + '\n' +
                                    own.wait.what);
      } else {
        std::istringstream lines(text);
        Watchdog::PeerState state = {.rank = status.MPI_SOURCE, .answered = true, .wait = {}, .where = {}};
        lines >> state.wait.handshake >> state.begun >> state.queued >> std::ws;
        std::getline(lines, state.where);
        std::getline(lines, state.wait.place);
        std::getline(lines, state.wait.what);
        const std::lock_guard lock(peers_mutex_);
        for (auto& peer : peers_) {
          if (peer.rank == state.rank) peer = state;
        }
      }
    }
    check(MPI_Irecv(incoming_text_.data(), static_cast<int>(kControlBytes), MPI_CHAR, MPI_ANY_SOURCE, kControlTag,
                    MPI_COMM_WORLD, &incoming_),
          "MPI_Irecv");
  }
}

std::vector<Watchdog::PeerState> MpiThread::ask_peers(double seconds) {
  {
    const std::lock_guard lock(peers_mutex_);
    peers_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) peers_.push_back({.rank = rank, .answered = false, .wait = {}, .where = {}});
    }
  }
  question_ = true;
  queued_.notify_one();
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::lock_guard lock(peers_mutex_);
    const bool all = std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer.answered; });
    if (all || std::chrono::steady_clock::now() > until) return peers_;
  }
}

}  // namespace strata::sharding
