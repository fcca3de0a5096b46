// SPDX-License-Identifier: MIT
// Checks the other ranks, the exit code and error.json after a fault of one rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

namespace strata::sharding {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kTimeoutSeconds = 3;  // as in fault_rank
constexpr double kStartSeconds = 30;   // for mpirun to start and end ranks on a busy machine

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// One run of fault_rank under mpirun.
class Job {
 public:
  Job(const std::string& scenario, int ranks, int victim)
      : folder_(fs::path(std::getenv("TEST_TMPDIR")) / (scenario + "_of_rank_" + std::to_string(victim))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "error.json") << "{\"code\": 1, \"message\": \"of an earlier run\"}";
    const std::string program = fs::absolute("tests/sharding/fault_rank"), count = std::to_string(ranks),
                      chosen = std::to_string(victim), output = folder_ / "output";
    process_ = fork();
    if (process_ == 0) {
      const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      // mpirun has a folder of its own for temporary files: another mpirun may remove one that they share.
      execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca",
             "orte_tmpdir_base", folder_.c_str(), "-n", count.c_str(), program.c_str(), scenario.c_str(),
             folder_.c_str(), chosen.c_str(), nullptr);
      _exit(99);
    }
  }
  ~Job() {
    if (!exit_code_) kill(process_, SIGKILL);
  }

  // Returns the exit code of mpirun, or -1 if it did not end in time.
  int wait(double seconds) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < until) {
      int status;
      if (waitpid(process_, &status, WNOHANG) == process_) {
        ended_ = now();
        exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return *exit_code_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return -1;
  }
  void wait_for_output(const std::string& text) const {
    const auto until = Clock::now() + std::chrono::duration<double>(kStartSeconds);
    while (output().find(text) == std::string::npos && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  void signal(int number) const { kill(process_, number); }
  std::string output() const { return contents(folder_ / "output"); }
  // Returns the processes of all ranks.
  std::vector<std::string> processes() const {
    std::vector<std::string> found;
    std::istringstream lines(output());
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(" is process ");
      if (at != std::string::npos) found.push_back(line.substr(at + 12));
    }
    return found;
  }
  nlohmann::json error() const {
    return nlohmann::json::parse(contents(folder_ / "error.json"), nullptr, /*allow_exceptions=*/false);
  }
  // Return seconds from the fault to error.json, and to the end of all processes.
  double until_report() const {
    const auto written = fs::last_write_time(folder_ / "error.json");
    return std::chrono::duration<double>(std::chrono::file_clock::to_sys(written).time_since_epoch()).count() -
           strike();
  }
  double until_end() const { return ended_ - strike(); }

 private:
  double strike() const {
    const std::string text = output(), mark = "strikes at ";
    const size_t at = text.find(mark);
    return at == std::string::npos ? 0 : std::stod(text.substr(at + mark.size()));
  }

  const fs::path folder_;
  pid_t process_;
  std::optional<int> exit_code_;
  double ended_ = 0;
};

// Expects that the job with this fault has ended with this exit code, and prints that it was seen, which
// tests/trainer/faults/fault_kinds.py counts. `late_` says when it strikes, and is no part of the kind.
void expect_fault(Job& job, const std::string& scenario, int code, double seconds = kStartSeconds) {
  const int seen = job.wait(seconds);
  EXPECT_EQ(seen, code) << job.output();
  const std::string kind = scenario.starts_with("late_") ? scenario.substr(5) : scenario;
  if (seen == code) std::printf("fault: %s, %d\n", kind.c_str(), code);
}

// A dead process that its parent has not waited for does not run.
bool runs(const std::string& process) {
  const std::string state = contents("/proc/" + process + "/stat");
  const size_t name_end = state.rfind(") ");
  return name_end != std::string::npos && state.at(name_end + 2) != 'Z';
}

void expect_words(const Job& job, const std::vector<std::string>& words) {
  const std::string message = job.error().value("message", "no message");
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
}

// Call it after the end of mpirun, which ends right after it has sent the signals.
void expect_no_process(const Job& job) {
  const auto until = Clock::now() + std::chrono::seconds(10);
  const auto processes = job.processes();
  EXPECT_EQ(processes.size(), 3u) << job.output();
  for (const auto& process : processes) {
    while (runs(process) && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(runs(process)) << process;
  }
}

TEST(FaultTest, NothingWrong) {
  Job job("none", 3, -1);
  EXPECT_EQ(job.wait(kStartSeconds), 0) << job.output();
  EXPECT_TRUE(job.error().is_discarded()) << "the stale error.json is still there";
}

struct Mismatch {
  const char* scenario;
  std::vector<std::string> words;
};

// The rank that reports says everything, so mpirun need not let the other one speak for a second.
class PlanMismatch : public testing::TestWithParam<Mismatch> {
 protected:
  void SetUp() override { setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", /*overwrite=*/1); }
  void TearDown() override { unsetenv("OMPI_MCA_odls_base_sigkill_timeout"); }
};

TEST_P(PlanMismatch, IsNamedWithinASecond) {
  const auto& [scenario, words] = GetParam();
  Job job(scenario, 2, 1);
  expect_fault(job, scenario, 7);
  EXPECT_LT(job.until_report(), 1.2) << job.output();  // one second, and one tick of the watchdog
  expect_words(job, words);
  EXPECT_EQ(job.error().value("code", 0), 7);
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, PlanMismatch,
    testing::Values(Mismatch{"skip",
                             {"rank 0 starts collective 5, all_gather of blocks.2 (2000 float32)",
                              "rank 1 starts collective 5, all_gather of blocks.3 (2000 float32)"}},
                    Mismatch{"resize",
                             {"rank 0 starts collective 5, all_gather of blocks.2 (2000 float32)",
                              "rank 1 starts collective 5, all_gather of blocks.2 (2002 float32)"}},
                    Mismatch{"reorder",
                             {"rank 0 starts collective 5, all_gather of blocks.2",
                              "rank 1 starts collective 5, reduce_scatter of blocks.2"}},
                    Mismatch{"dtype",
                             {"rank 0 starts collective 5, all_gather of blocks.2 (2000 float32)",
                              "rank 1 starts collective 5, all_gather of blocks.2 (2000 bfloat16)"}},
                    Mismatch{"counts", {"all_to_all of halo: rank 1 sends 4 elements to rank 0, which expects 3"}},
                    Mismatch{"late_counts", {"a message from rank 1 failed", "truncated"}},
                    Mismatch{"late_fewer", {"all_to_all of halo (float32): rank 1 sent 8 bytes, rank 0 expected 12"}},
                    Mismatch{"late_skip",
                             {"all_gather of blocks.2 (2000 float32)", "all_gather of blocks.3 (2000 float32)",
                              "collective 53"}},
                    Mismatch{"late_resize",
                             {"rank 1 starts all_gather of blocks.2 (2002 float32)",
                              "rank 0 starts all_gather of blocks.2 (2000 float32)"}}),
    [](const auto& info) { return info.param.scenario; });

// Rank 1 sums the loss over all ranks, while rank 0 gathers with rank 1, and ranks 2 and 3 wait for them.
TEST(FaultTest, RanksOfDifferentGroupsThatWaitForEachOtherAreNamedInTheFirstStep) {
  Job job("groups", 4, 1);
  expect_fault(job, "groups", 7);
  EXPECT_LT(job.until_report(), kTimeoutSeconds) << job.output();  // three checks of the watchdog, one second in hand
  expect_words(job, {"ranks of different groups wait for each other",
                     "rank 0 is in ranks 0 and 1 (group 1): collective 3, all_gather of blocks.2 (2000 float32)",
                     "rank 1 is in all ranks: collective 1, all_reduce of loss (1 float32)",
                     "rank 2 is in ranks 0 and 2 (group 3): collective 3, all_reduce of blocks.2 (1000 float32)"});
}

TEST(FaultTest, ARankThatNeverStartsIsMissed) {
  Job job("start", 3, 2);
  expect_fault(job, "start", 7, kStartSeconds + kTimeoutSeconds);
  for (const char* words : {"the start of MPI, rank 0 of 3 on ", "did not end within 3.", "a rank did not start"})
    EXPECT_NE(job.output().find(words), std::string::npos) << words << " is not in: " << job.output();
}

class HungRank : public testing::TestWithParam<std::tuple<const char*, int>> {};

constexpr std::tuple<const char*, int> kHungRanks[] = {
    {"late_stop", 0}, {"late_stop", 1}, {"late_stop", 2}, {"late_hang", 1}};

// Nothing but the timeout passes in these runs, so they pass it beside each other. They start one after the other:
// ranks that start have no more than the timeout for it.
Job& started_with_the_others(const std::tuple<const char*, int>& wanted) {
  static std::map<std::tuple<const char*, int>, Job> jobs;
  for (const auto& [scenario, victim] : kHungRanks) {
    const std::tuple key(scenario, victim);
    const auto [job, is_new] = jobs.try_emplace(key, scenario, 3, victim);
    if (is_new) job->second.wait_for_output("strikes at ");
  }
  return jobs.at(wanted);
}

TEST_P(HungRank, IsNamedAfterTheTimeout) {
  const auto [scenario, victim] = GetParam();
  Job& job = started_with_the_others(GetParam());
  expect_fault(job, scenario, 7, kStartSeconds + kTimeoutSeconds);
  EXPECT_GT(job.until_report(), kTimeoutSeconds - 0.5) << job.output();
  EXPECT_LT(job.until_report(), kTimeoutSeconds + 1) << job.output();
  const int reporter = job.error().value("rank", -1);
  const std::string name = "rank " + std::to_string(victim);
  if (reporter != victim)
    expect_words(job, {"all_gather of blocks.2 (3000 float32) did not end",
                       std::string(": ") + name +
                           (scenario == std::string("late_hang") ? " did not arrive" : " did not answer")});
  else
    expect_words(job, {"the training loop of this rank"});
  EXPECT_EQ(job.error().value("step", 0), 7);
  EXPECT_EQ(job.error().value("phase", ""), "forward");
}

INSTANTIATE_TEST_SUITE_P(Ranks, HungRank, testing::ValuesIn(kHungRanks), [](const auto& info) {
  return std::string(std::get<0>(info.param)) + "_of_rank_" + std::to_string(std::get<1>(info.param));
});

// An answer of 2,000 bytes would be an error of MPI, and one that was cut would not have what the rank starts.
TEST(FaultTest, RanksThatDifferInAGroupWithALongNameAreNamed) {
  Job job("late_long_name", 3, 1);
  EXPECT_EQ(job.wait(kStartSeconds + kTimeoutSeconds), 7) << job.output();
  expect_words(job, {"ranks do not do the same at ranks of gggg", "(2024 bytes, hash ", "starts another thing",
                     "starts one thing"});
}

TEST(FaultTest, ARunThatIsSuspendedAsAWholeGoesOn) {
  Job job("endless", 3, -1);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) job.wait_for_output(std::string(rank) + " is process");
  const auto processes = job.processes();
  ASSERT_EQ(processes.size(), 3u) << job.output();
  for (const auto& process : processes) kill(std::stoi(process), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::duration<double>(kTimeoutSeconds + 1));
  for (const auto& process : processes) kill(std::stoi(process), SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  job.signal(SIGUSR1);
  EXPECT_EQ(job.wait(kStartSeconds), 75) << job.output();
}

TEST(FaultTest, KilledRankTakesAllWithItInFiveSeconds) {
  Job job("late_kill", 3, 1);
  expect_fault(job, "late_kill", 137, kStartSeconds + 5);
  EXPECT_LT(job.until_end(), 5);
  expect_no_process(job);
}

TEST(FaultTest, EarlyExitOfARankEndsAll) {
  Job job("late_exit", 3, 2);
  expect_fault(job, "late_exit", 7);
  EXPECT_LT(job.until_report(), 1);
  EXPECT_EQ(job.error().value("rank", -1), 2);
  expect_words(job, {"left the run by exit()"});
}

TEST(FaultTest, ARankThatEndsMpiBeforeTheOthersEndsAll) {
  Job job("late_finalize", 3, 1);
  expect_fault(job, "late_finalize", 7, kStartSeconds + kTimeoutSeconds);
  EXPECT_LT(job.until_report(), kTimeoutSeconds + 1) << job.output();
  EXPECT_EQ(job.error().value("step", 0), 7);
  if (job.error().value("rank", -1) == 1)
    expect_words(job, {"an early end did not end within 3."});
  else
    expect_words(job, {"all_gather of blocks.2 (3000 float32) did not end", ": rank 1 did not answer"});
  expect_no_process(job);
}

TEST(FaultTest, ARankThatFailsAfterTheEndOfMpiGivesTheExitCode) {
  Job job("afterwards", 3, 1);
  expect_fault(job, "afterwards", 4);
  EXPECT_EQ(job.error().value("rank", -1), 1);
  EXPECT_EQ(job.error().value("step", 0), 20);
  expect_words(job, {"the end of MPI was not the end of this rank"});
  expect_no_process(job);
}

TEST(FaultTest, ARankThatVanishesWithoutAnErrorEndsAll) {
  Job job("late_exit_at_once", 3, 1);
  EXPECT_NE(job.wait(kStartSeconds + kTimeoutSeconds), 0) << job.output();
  EXPECT_LT(job.until_end(), kTimeoutSeconds + 3) << job.output();
}

TEST(FaultTest, TheFirstCauseIsReported) {
  Job job("late_error", 3, 1);
  expect_fault(job, "late_error", 3);
  EXPECT_LT(job.until_report(), 1);
  const auto error = job.error();
  EXPECT_EQ(error.value("code", 0), 3);
  EXPECT_EQ(error.value("rank", -1), 1);
  EXPECT_EQ(error.value("step", 0), 7);
  EXPECT_EQ(error.value("phase", ""), "forward");
  EXPECT_EQ(error.value("message", ""), "tokens.bin is truncated at \"byte 7\"\n");
}

TEST(FaultTest, AnErrorOfMpiWhileARankComputesIsReported) {
  Job job("late_long_question", 2, 1);
  expect_fault(job, "late_long_question", 7);
  EXPECT_EQ(job.error().value("rank", -1), 0);
  expect_words(job, {"a question failed", "truncated"});
}

TEST(FaultTest, CrashesNameRankStepAndPhase) {
  for (const auto& [scenario, code, word] :
       {std::tuple("late_segfault", 139, "SIGSEGV"), std::tuple("late_abort", 134, "SIGABRT"),
        std::tuple("late_overflow", 139, "SIGSEGV")}) {
    Job job(scenario, 3, 1);
    expect_fault(job, scenario, code);
    const auto error = job.error();
    EXPECT_EQ(error.value("code", 0), code);
    EXPECT_EQ(error.value("rank", -1), 1);
    EXPECT_EQ(error.value("step", 0), 7);
    expect_words(job, {word});
    EXPECT_NE(job.output().find("fault_rank("), std::string::npos) << "no backtrace in: " << job.output();
  }
}

TEST(FaultTest, DifferentConfigurationsAreRefused) {
  Job job("configuration", 3, 2);
  EXPECT_EQ(job.wait(kStartSeconds), 2) << job.output();
  expect_words(job, {"ranks differ in their configuration, line 2: rank 0 has `seed: 0`, rank 2 has `seed: 1`"});
}

TEST(FaultTest, AStopIsAgreedUpon) {
  Job job("endless", 3, -1);
  job.wait_for_output("rank 2 is process");
  job.signal(SIGUSR1);  // mpirun forwards it to every rank
  EXPECT_EQ(job.wait(kStartSeconds), 75) << job.output();
  std::vector<std::string> steps;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(" stops after step ");
    if (at != std::string::npos) steps.push_back(line.substr(at));
  }
  ASSERT_EQ(steps.size(), 3u) << job.output();
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(steps[0], steps[2]);
}

}  // namespace
}  // namespace strata::sharding
