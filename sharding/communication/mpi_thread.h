// SPDX-License-Identifier: MIT
// The only thread of a process that calls MPI. It runs jobs in order, drives their messages, and answers the watchdogs.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/communication/tag_layout.h"
#include "sharding/process/watchdog.h"

namespace strata::sharding {

// MPI makes no progress on its own, and calling it from two threads would need its slowest locks. Ranks here are ranks
// of MPI_COMM_WORLD. A group is a list of ranks with its own range of tags and not an MPI communicator, because making
// a communicator is a collective call that blocks: this thread must go on answering the watchdogs.
class MpiThread {
 public:
  // Starts MPI. The watchdog must outlive this object. `who` gives rank, number of ranks and host for the report of a
  // failure.
  MpiThread(Watchdog& watchdog, const std::string& who);
  ~MpiThread();
  int rank() const { return rank_; }
  int size() const { return size_; }
  const TagLayout& tags() const { return tags_; }

  // Queues a job, which runs after all earlier jobs. The watchdogs report it as `name`. The returned object's wait()
  // throws an error of the job.
  std::shared_ptr<PendingCollective::State> submit(Watchdog::Wait name, std::function<void()> job);
  void run(Watchdog::Wait name, std::function<void()> job) { submit(std::move(name), std::move(job))->wait(); }

  // The highest group number that this process has used. HostGroup::split chooses a number above the highest of all
  // members.
  int highest_group() const { return highest_group_; }
  void use_group(int group);

  // Ends MPI after all jobs, together with all other ranks.
  void finalize();
  // Ends the thread without ending MPI, because this process is about to fail.
  void abandon();
  // Ends all ranks by MPI_Abort. It can be called from any thread and may hang.
  static void abort(int exit_code);

  // The messages of one job; only jobs may use it. The data must stay in place until complete() returns. complete()
  // throws if a rank sent more or fewer bytes than expected.
  class Exchange {
   public:
    explicit Exchange(MpiThread& thread) : thread_(thread) {}
    ~Exchange();  // after an error it cancels what has not arrived, because its memory is about to be freed
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    void send(int rank, int tag, const void* data, size_t bytes);
    void receive(int rank, int tag, void* data, size_t bytes);
    void complete();

   private:
    void check_sizes(const std::vector<MPI_Status>& statuses) const;

    MpiThread& thread_;
    std::vector<MPI_Request> requests_;
    std::vector<int> expected_;  // expected bytes of each request; -1 for sends
  };
  // Returns memory for a job that is kept between jobs, which run one at a time.
  std::byte* staging(size_t bytes);

  // Splits messages that are larger than this, because MPI counts bytes in int. Tests lower the limit.
  void set_largest_message(size_t bytes) { largest_message_ = bytes; }

 private:
  struct Job;
  struct Answer;
  void serve();
  std::vector<MPI_Status> complete(std::vector<MPI_Request>& requests);
  void pause(int polls);
  void answer_peers();
  std::vector<Watchdog::PeerState> ask_peers(double seconds);

  Watchdog& watchdog_;
  int rank_ = 0, size_ = 1;
  TagLayout tags_{TagLayout::kLeastHighestTag};
  std::atomic<int> highest_group_{0};
  std::atomic<size_t> largest_message_{size_t{1} << 30};
  std::vector<std::byte> staging_;

  std::mutex mutex_;
  std::condition_variable queued_;    // signals a job, a question, or the end
  std::condition_variable finished_;  // signals that a job has finished
  std::deque<std::shared_ptr<Job>> jobs_;
  std::atomic<int> waiters_{0};  // blocked callers; if there are any, the thread may use their core
  bool closing_ = false;
  std::atomic<bool> abandoned_{false};

  // Questions and answers between the watchdogs of the ranks.
  std::atomic<bool> question_{false};
  std::mutex peers_mutex_;
  std::vector<Watchdog::PeerState> peers_;
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::vector<char> incoming_text_;
  std::list<Answer> outgoing_;

  std::thread thread_;
};

}  // namespace strata::sharding
