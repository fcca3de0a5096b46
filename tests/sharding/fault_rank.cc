// SPDX-License-Identifier: MIT
// fault_rank SCENARIO FOLDER VICTIM: a rank of a small run in which something goes wrong. fault_test starts it.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/errors.h"
#include "sharding/communication/mpi_thread.h"
#include "sharding/process/failure.h"
#include "sharding/process/stop_request.h"
#include "sharding/rank_session.h"

namespace {

using namespace strata;
using namespace strata::sharding;

constexpr double kTimeoutSeconds = 3;
constexpr int kLayers = 4, kStrikeLayer = 2;

struct Run {
  RankSession& session;
  Communicator& all;
  bool victim;
};

// The work of a layer in every step: two collectives, one of them with another label in each layer.
void layer(Run& run, int index, int64_t count) {
  at::Tensor full = at::ones({count * run.all.size()}), shard = at::ones({count});
  run.all.all_gather(full, shard, "blocks." + std::to_string(index)).wait();
  run.all.reduce_scatter(shard, full, "blocks." + std::to_string(index)).wait();
}

// Hybrid sharding: pairs of neighbors share a copy, and equal parts of both copies are summed.
struct Mesh {
  std::unique_ptr<Communicator> shard, replicate;
};

void layer(Mesh& mesh, int index) {
  at::Tensor full = at::ones({2000}), shard = at::ones({1000});
  mesh.shard->all_gather(full, shard, "blocks." + std::to_string(index)).wait();
  mesh.replicate->all_reduce(shard, "blocks." + std::to_string(index)).wait();
}

// Each rank sends three elements to each rank. Rank 0 expects three, whatever number this rank sends to it.
void exchange(Run& run, int64_t to_rank_0) {
  std::vector<int64_t> expected(static_cast<size_t>(run.all.size()), 3), sent = expected;
  sent[0] = run.all.rank() == 0 ? 3 : to_rank_0;
  at::Tensor output = at::ones({3 * run.all.size()}), input = at::ones({3 * (run.all.size() - 1) + sent[0]});
  run.all.all_to_all(output, expected, input, sent, "halo").wait();
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Waits for a message that nobody sends, in a group whose name has 2,000 bytes.
void wait_at_a_long_name(Run& run, const std::string& what) {
  MpiThread& thread = *run.session.host_group().thread();
  thread.run({"ranks of " + std::string(2000, 'g') + ": collective 53", what}, [&] {
    MpiThread::Exchange exchange(thread);
    char message = 0;
    exchange.receive(/*rank=*/1, /*tag=*/7, &message, 1);
    exchange.complete();
  });
}

volatile bool never = false;

[[gnu::noinline]] int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = 1;
  return never ? depth : overflow_stack(depth ^ 1) + frame[0];
}

// Faults of the victim, which replace the layer.
const std::map<std::string, std::function<void(Run&)>> kFaults = {
    {"skip", [](Run&) {}},
    {"resize", [](Run& run) { layer(run, kStrikeLayer, 1001); }},
    {"reorder",
     [](Run& run) {
       at::Tensor full = at::ones({1000 * run.all.size()}), shard = at::ones({1000});
       run.all.reduce_scatter(shard, full, "blocks.2").wait();
       run.all.all_gather(full, shard, "blocks.2").wait();
     }},
    {"dtype",
     [](Run& run) {
       at::Tensor full = at::ones({1000 * run.all.size()}, at::kBFloat16), shard = at::ones({1000}, at::kBFloat16);
       run.all.all_gather(full, shard, "blocks.2").wait();
     }},
    {"counts", [](Run& run) { exchange(run, 4); }},
    {"fewer", [](Run& run) { exchange(run, 2); }},
    {"long_question",  // for rank 0, which computes
     [](Run& run) {
       sleep_for(0.3);  // until rank 0 has ended its last collective
       const std::string question(2000, '?');
       MpiThread& thread = *run.session.host_group().thread();
       thread.run({"", "a long question"}, [&] {
         MpiThread::Exchange exchange(thread);
         exchange.send(/*rank=*/0, /*tag=*/0, question.data(), question.size());
         exchange.complete();
       });
       layer(run, kStrikeLayer, 1000);
     }},
    {"long_name", [](Run& run) { wait_at_a_long_name(run, "another thing"); }},
    {"stop", [](Run&) { raise(SIGSTOP); }},
    {"groups",
     [](Run& run) {
       at::Tensor loss = at::ones({1});
       run.all.all_reduce(loss, "loss").wait();
     }},
    {"hang", [](Run&) { sleep_for(1000); }},
    {"kill", [](Run&) { raise(SIGKILL); }},
    {"exit", [](Run&) { std::exit(0); }},
    {"exit_at_once", [](Run&) { _exit(0); }},
    {"finalize",  // MPI ends for this rank alone
     [](Run& run) {
       run.session.host_group().thread()->run({"", "an early end"}, [] { MPI_Finalize(); });
       throw Error(ExitCode::data, "after the end of MPI");
     }},
    {"overflow",  // in the thread that calls MPI
     [](Run& run) {
       run.session.host_group().thread()->run({"", "an overflow"}, [] { overflow_stack(0); });
     }},
    {"segfault", [](Run&) { *reinterpret_cast<volatile int*>(sysconf(_SC_PAGESIZE) / 2) = 1; }},
    {"abort", [](Run&) { std::abort(); }},
    {"error", [](Run&) { throw Error(ExitCode::data, "tokens.bin is truncated at \"byte 7\"\n"); }},
};

bool any_rank_was_asked(const RankSession& session) {
  const auto answers = session.gather(stop_requested_here() ? "stop" : "");
  return std::any_of(answers.begin(), answers.end(), [](const std::string& answer) { return !answer.empty(); });
}

bool is_victim(const std::string& victim) { return std::getenv("OMPI_COMM_WORLD_RANK") == victim; }

int run_steps(const std::string& scenario, const std::string& folder, int victim) {
  if (scenario == "start" && is_victim(std::to_string(victim))) sleep_for(1000);
  // Cycles of groups are reported after the third check of the watchdog, at 2 s.
  const double timeout = scenario == "groups" ? kTimeoutSeconds + 1 : kTimeoutSeconds;
  RankSession session({.timeout_seconds = timeout, .compare_collectives_every = 5});
  if (session.rank() == 0) remove_stale_report(folder);
  session.barrier();
  set_report_folder(folder);
  install_stop_handlers();
  const std::string late = "late_";  // the fault strikes in step 7 instead of the first
  const bool is_late = scenario.compare(0, late.size(), late) == 0;
  const std::string fault = is_late ? scenario.substr(late.size()) : scenario;
  if (fault == "configuration")
    session.require_equal("configuration", "steps: 3\nseed: " + std::to_string(session.rank() == victim) + "\n");
  const auto all = session.communicator();
  Run run{session, *all, session.rank() == victim};
  Mesh mesh;
  if (fault == "groups") mesh = {all->split(session.rank() / 2), all->split(session.rank() % 2)};
  for (int step = 1; step <= 100'000; ++step) {
    for (int index = 0; index < kLayers; ++index) {
      set_position(step, "forward");
      if (run.victim && index == kStrikeLayer && step == (is_late ? 7 : 1) && kFaults.count(fault) > 0) {
        std::fprintf(stderr, "strikes at %.3f\n",
                     std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
        kFaults.at(fault)(run);
      } else if (fault == "counts" || fault == "fewer") {
        exchange(run, 3);
      } else if (fault == "long_question" && index == kStrikeLayer && step == 7) {
        sleep_for(1);
        layer(run, index, 1000);
      } else if (fault == "long_name" && index == kStrikeLayer && step == 7) {
        wait_at_a_long_name(run, "one thing");
      } else if (fault == "groups") {
        layer(mesh, index);
      } else {
        layer(run, index, 1000);
      }
    }
    session.end_step();
    if (step == 1) std::fprintf(stderr, "rank %d is process %d\n", session.rank(), getpid());
    if (any_rank_was_asked(session)) {
      std::fprintf(stderr, "rank %d stops after step %d\n", session.rank(), step);
      return static_cast<int>(ExitCode::preempted);
    }
    if ((fault == "none" || fault == "afterwards") && step == 20) return 0;
    sleep_for(1e-3);
  }
  return 1;
}

}  // namespace

int main(int, char** arguments) {
  try {
    const int code = run_steps(arguments[1], arguments[2], std::atoi(arguments[3]));
    if (arguments[1] == std::string("afterwards") && is_victim(arguments[3]))
      throw Error(ExitCode::storage, "the end of MPI was not the end of this rank");
    return code;
  } catch (const Error& error) {
    const Failure failure = failure_here(error.code(), error.what());
    report_failure(failure);
    std::fprintf(stderr, "rank %d: %s\n", failure.rank, error.what());
    return static_cast<int>(error.code());
  }
}
