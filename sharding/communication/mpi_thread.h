// SPDX-License-Identifier: MIT
// The one thread of a process that calls MPI: it runs jobs in order, drives their messages, and answers the watchdogs.
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
#include "sharding/process/watchdog.h"

namespace strata::sharding {

// MPI makes no progress on its own, and two threads inside of it would need its slowest locks. Ranks here are those of
// MPI_COMM_WORLD; groups are lists of ranks with a range of tags of their own, so that no call of MPI ever blocks.
class MpiThread {
 public:
  // Starts MPI; the watchdog must outlive this. `who` says in case of a failure which of how many ranks this is, and
  // where.
  MpiThread(Watchdog& watchdog, const std::string& who);
  ~MpiThread();
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Queues a job; it runs after all earlier ones. `name` is for the watchdogs. An error of the job is thrown by wait().
  std::shared_ptr<PendingCollective::State> submit(Watchdog::Wait name, std::function<void()> job);
  void run(Watchdog::Wait name, std::function<void()> job) { submit(std::move(name), std::move(job))->wait(); }

  // A number for a new group that is larger than any that the members' processes have used: see HostGroup::split.
  int highest_group() const { return highest_group_; }
  void use_group(int group);

  // Ends MPI after all jobs, together with all other ranks.
  void finalize();
  // Leaves the thread without ending MPI: this process is about to fail.
  void abandon();
  // MPI_Abort: ends all ranks. From any thread; may hang.
  static void abort(int exit_code);

  // The messages of one job, called by jobs only. The data must stay where it is until complete() returns, which throws
  // when a rank sent more or less than was expected of it.
  class Exchange {
   public:
    explicit Exchange(MpiThread& thread) : thread_(thread) {}
    void send(int rank, int tag, const void* data, size_t bytes);
    void receive(int rank, int tag, void* data, size_t bytes);
    void complete();

   private:
    void check_sizes(const std::vector<MPI_Status>& statuses) const;

    MpiThread& thread_;
    std::vector<MPI_Request> requests_;
    std::vector<int> expected_;  // bytes for each request; -1 for what is sent
  };
  // Memory for jobs, kept between them; one job at a time.
  std::byte* staging(size_t bytes);

  // Messages above this are cut; MPI counts in int. Tests lower it.
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
  std::atomic<int> highest_group_{0};
  std::atomic<size_t> largest_message_{size_t{1} << 30};
  std::vector<std::byte> staging_;

  std::mutex mutex_;
  std::condition_variable queued_;    // a job, a question, or the end
  std::condition_variable finished_;  // a job
  std::deque<std::shared_ptr<Job>> jobs_;
  std::atomic<int> waiters_{0};  // callers that are blocked: the thread may then use their core
  bool closing_ = false;
  std::atomic<bool> abandoned_{false};

  // Questions and answers of the watchdogs.
  std::atomic<bool> question_{false};
  std::mutex peers_mutex_;
  std::vector<Watchdog::PeerState> peers_;
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::vector<char> incoming_text_;
  std::list<Answer> outgoing_;

  std::thread thread_;
};

}  // namespace strata::sharding
