// SPDX-License-Identifier: MIT
// Checks that a run starts only in a folder that it can write and that belongs to it.
#include "trainer/report/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "tests/refused_call.h"
#include "tests/trainer/test_files.h"
#include "trainer/report/folder_contents.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::string& path) {
  try {
    const RunFolder folder(path);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    return error.what();
  }
}

#define EXPECT_REFUSED(path, part)                                        \
  do {                                                                    \
    const std::string said = refusal(path);                               \
    EXPECT_NE(said.find(part), std::string::npos) << said;                \
    EXPECT_EQ(said.find(std::string("run.folder ") + (path)), 0) << said; \
  } while (false)

TEST(RunFolder, MakesWhatIsMissing) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() + "/runs/first/");
  EXPECT_TRUE(fs::is_directory(folder.path() + "/runs/first"));
  EXPECT_FALSE(contents_of(run.path("")).has_configuration);
  run.write("resolved.yaml", "one");
  run.write("resolved.yaml", "two");
  std::string text;
  std::ifstream(run.path("resolved.yaml")) >> text;
  EXPECT_EQ(text, "two");
  for (const fs::directory_entry& file : fs::directory_iterator(run.path(""))) {
    EXPECT_EQ(file.path().string().find(".tmp"), std::string::npos) << file.path();
  }
  EXPECT_TRUE(contents_of(run.path("")).has_configuration);
}

TEST(RunFolder, RefusesWhatIsNoFolder) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/run";
  std::ofstream(path) << "a file";
  EXPECT_REFUSED(path, "is not a folder");
  EXPECT_REFUSED(path + "/below", "Not a directory");
  fs::remove(path);
  fs::create_directory(folder.path() + "/elsewhere");
  fs::create_directory_symlink("elsewhere", path);
  EXPECT_REFUSED(path, "is a symbolic link");
  const std::string said = refusal(path + "/");
  EXPECT_NE(said.find("is a symbolic link"), std::string::npos) << said;
  fs::remove(path);
  fs::create_symlink("nowhere", path);
  EXPECT_REFUSED(path, "is a symbolic link");
  fs::remove(path);
  fs::create_directory(path);
  fs::create_directory_symlink("../elsewhere", path + "/checkpoints");
  EXPECT_REFUSED(path, "checkpoints is a symbolic link");
  fs::remove(path + "/checkpoints");
  fs::create_symlink("../elsewhere/lock", path + "/.lock");
  EXPECT_REFUSED(path, "cannot be written");
}

// Runs `body` in a child with mounts of its own, because root may write whatever the mode bits are. The exit code of
// the child is the result.
int in_own_mounts(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    // Root can mount; other users need a user namespace.
    if (::unshare(CLONE_NEWNS | (::getuid() == 0 ? 0 : CLONE_NEWUSER)) != 0) ::_exit(90);
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(RunFolder, RefusesAFileSystemThatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.path();
  EXPECT_EQ(0, in_own_mounts([&] {
              if (::mount("tmpfs", path.c_str(), "tmpfs", MS_RDONLY, "size=64k") != 0) return 91;
              const std::string there = refusal(path), below = refusal(path + "/run");
              if (there.find("Read-only file system") == std::string::npos) return 1;
              return below.find("Read-only file system") == std::string::npos ? 2 : 0;
            }));
  EXPECT_EQ(0, in_own_mounts([&] {
              if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") != 0) return 91;
              std::ofstream(path + "/full") << std::string(1 << 20, 'x');
              return refusal(path).find("No space left on device") == std::string::npos ? 1 : 0;
            }));
}

TEST(RunFolder, ALiveProcessHoldsItADeadOneDoesNot) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const RunFolder run(folder.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_REFUSED(folder.path(), "is in use by another run, process " + std::to_string(holder) + " on ");
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_EQ(refusal(folder.path()), "accepted");
  const RunFolder first(folder.path());
  EXPECT_REFUSED(folder.path(), "is in use");  // by this process
}

TEST(RunFolder, AHolderWithoutANameOfItsOwnIsWaitedForAWhile) {
  const TemporaryFolder folder;
  const auto refusal_by_holder = [&](const char* name, int milliseconds) {
    std::ofstream(folder.path() + "/.lock") << name;
    const int lock = ::open((folder.path() + "/.lock").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(::flock(lock, LOCK_EX), 0);
    std::thread ends([=] { ::usleep(1000 * milliseconds), ::close(lock); });
    const std::string said = refusal(folder.path());
    ends.join();
    return said;
  };
  EXPECT_NE(refusal_by_holder("", 2000).find("in use by another run, which has not written its name"),
            std::string::npos);
  EXPECT_EQ(refusal_by_holder("", 50), "accepted");
  std::string said;  // A name that a killed run has left is waited for only 10 ms, so a busy machine has several tries.
  for (int tries = 0; tries < 9 && said != "accepted"; ++tries) said = refusal_by_holder("process 1 on a", 1);
  EXPECT_EQ(said, "accepted");
}

// What two processes share that ask for a folder at once.
struct Pair {
  std::atomic<int> ready = 0, answered = 0;
  char answers[2][256] = {};
};

TEST(RunFolder, OneOfTwoProcessesThatStartAtOnceHoldsItInEachOf200Pairs) {
  const TemporaryFolder folder;
  void* const memory = ::mmap(nullptr, sizeof(Pair), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto wait_for_both = [](std::atomic<int>& count) {
    for (++count; count < 2;) ::sched_yield();
  };
  for (int round = 0; round < 200; ++round) {
    Pair& pair = *new (memory) Pair;
    pid_t processes[2];
    for (int i = 0; i < 2; ++i) {
      processes[i] = ::fork();
      if (processes[i] != 0) continue;
      wait_for_both(pair.ready);
      try {
        const RunFolder run(folder.path());
        wait_for_both(pair.answered);
      } catch (const Error& error) {
        std::strncpy(pair.answers[i], error.what(), sizeof pair.answers[i] - 1);
        ++pair.answered;
      }
      ::_exit(0);
    }
    for (const pid_t process : processes) ::waitpid(process, nullptr, 0);
    const int refused = pair.answers[0][0] != '\0' ? 0 : 1;
    const std::string said = pair.answers[refused], other = pair.answers[1 - refused];
    const std::string holder = "is in use by another run, process " + std::to_string(processes[1 - refused]) + " on ";
    EXPECT_EQ(other, "") << said;
    EXPECT_NE(said.find(holder), std::string::npos) << said << ", expected: " << holder;
  }
  ::munmap(memory, sizeof(Pair));
}

TEST(RunFolder, AFileSystemWithoutLocksIsAWarning) {
  const TemporaryFolder folder;
  EXPECT_EXIT(
      {
        if (!refuse_system_call(SYS_flock, ENOSYS)) ::_exit(90);
        ::_exit(refusal(folder.path()) == "accepted" ? 42 : 1);
      },
      testing::ExitedWithCode(42), "warning: run.folder .*: its file system has no locks");
}

TEST(RunFolder, ClearRemovesWhatRunsWriteAndNothingElse) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  for (const char* name :
       {"resolved.yaml", "metrics.jsonl", "events.out.tfevents.1.host.2.0", "notes.txt", "error.json", "error-1.json",
        "error-12.json", "error-.json", "error-1b.json", "error-1.json.old"}) {
    std::ofstream(run.path(name)) << "x";
  }
  fs::create_directories(run.path("checkpoints/step-00000001"));
  run.clear();
  EXPECT_FALSE(contents_of(folder.path()).has_configuration);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path())) left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{".lock", "error-.json", "error-1.json.old", "error-1b.json", "notes.txt"}));
}

TEST(FolderContents, AreReadFromMetricsAndCheckpoints) {
  const TemporaryFolder folder;
  const std::string checkpoints = folder.path() + "/checkpoints";
  fs::create_directories(checkpoints);
  std::ofstream(folder.path() + "/resolved.yaml") << "steps: 20\n";
  fs::create_symlink("step-00000012", checkpoints + "/latest");
  std::ofstream(folder.path() + "/metrics.jsonl") << "{\"step\":0,\"weights_sha256\":\"a\"}\n"
                                                     "{\"step\":12,\"loss\":1}\n"
                                                     "{\"step\":12,\"weights_sha256\":\"b\"}\n"
                                                     "{\"step\":13,\"loss\":1}\n"
                                                     "{\"step\":13,\"checkpoint\":12}\n"
                                                     "damaged\n"
                                                     "{\"step\":14,\"bad_sample\":\"\\\"checkpoint\\\":9\"}\n"
                                                     "{\"step\":15,\"checkpoint\":1";  // a crash cut this line
  FolderContents found = contents_of(folder.path());
  EXPECT_TRUE(found.holds_run());
  EXPECT_EQ(found.last_step, 14);
  EXPECT_EQ(found.last_checkpoint, 12);
  EXPECT_FALSE(found.has_checkpoint);
  for (const char* name : {"/step-00000012.tmp-1a", "/step-00000012.rejected-1a", "/step-12"}) {
    fs::create_directories(checkpoints + name);
  }
  EXPECT_FALSE(contents_of(folder.path()).has_checkpoint);
  for (const char* name : {"/step-00000012", "/step-123456789", "/step--1234567890", "/step-12345678x"}) {
    fs::create_directories(checkpoints + name);
  }
  EXPECT_TRUE(contents_of(folder.path()).has_checkpoint);
  EXPECT_EQ(contents_of(folder.path()).newest_checkpoint, 123456789);
}

TEST(FolderContents, WithoutResolvedYamlTheyBelongToOthers) {
  const TemporaryFolder folder;
  const auto foreign = [&] { return contents_of(folder.path()).foreign; };
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder.path() + "/" + name) << text; };
  write("notes.txt", "mine");
  write("tokenizer.json", "{}");  // a run keeps it
  // The launcher wrote these for ranks that were killed at the start, the first before a restart.
  for (const char* name : {"error-1.json", "error.json"}) {
    write(name, R"({"code": 137, "rank": 0, "step": null, "phase": null, "message": "killed", "hint": ""})");
  }
  EXPECT_EQ(foreign(), std::vector<std::string>{});
  EXPECT_FALSE(contents_of(folder.path()).has_configuration);
  write("error.json", R"({"errors": []})");
  write("error-1.json", R"({"errors": []})");
  write("events.out.tfevents.1.host.2.0", "theirs");
  fs::create_symlink("nowhere", folder.path() + "/metrics.jsonl");
  fs::create_directories(folder.path() + "/profile/theirs");
  fs::create_directory(folder.path() + "/checkpoints");  // the mount point of another disk
  write("kernels.txt", "");
  EXPECT_EQ(foreign(), (std::vector<std::string>{"error-1.json", "error.json", "events.out.tfevents.1.host.2.0",
                                                 "metrics.jsonl", "profile"}));
  write("resolved.yaml", "steps: 20\n");
  EXPECT_EQ(foreign(), std::vector<std::string>{});
  EXPECT_TRUE(contents_of(folder.path()).has_configuration);
}

// A run that trained for 20 steps, and saved a checkpoint after step 15.
const FolderContents kRun{
    .has_configuration = true, .has_records = true, .last_step = 20, .last_checkpoint = 15, .has_checkpoint = true};

Start start(const FolderContents& found, const char* difference, bool resume, bool overwrite) {
  return decide_start({found, difference, resume, overwrite}, "runs/a");
}

std::string refused(const FolderContents& found, const char* difference, bool resume) {
  try {
    start(found, difference, resume, false);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
}

TEST(RunFolder, WhatIsFoundDecidesHowToStart) {
  for (const bool resume : {false, true}) {
    for (const bool overwrite : {false, true}) EXPECT_EQ(start({}, "", resume, overwrite), Start::fresh);
  }
  EXPECT_EQ(start(kRun, "", true, false), Start::resume);
  EXPECT_EQ(start(kRun, "", true, true), Start::resume);  // restarts after a crash resume, with and without `overwrite`
  EXPECT_EQ(start(kRun, "", false, true), Start::replace);
  EXPECT_EQ(start(kRun, "steps", true, true), Start::replace);
  EXPECT_EQ(start(kRun, "steps", false, true), Start::replace);
  EXPECT_NE(refused(kRun, "", false).find("checkpoint.resume is never"), std::string::npos);
  EXPECT_NE(refused(kRun, "steps: 10 there, 20 here", true).find("may not change: steps: 10 there, 20 here"),
            std::string::npos);
  EXPECT_NE(refused(kRun, "steps: 10 there, 20 here", false).find("run.overwrite=true"), std::string::npos);
}

TEST(RunFolder, ARunThatEndedBeforeItsFirstStepIsNoRun) {
  const TemporaryFolder folder;
  for (const char* name : {"resolved.yaml", "kernels.txt", "memory.txt", "error.json", "tokenizer.json", ".lock"}) {
    std::ofstream(folder.path() + "/" + name) << "x";
  }
  fs::create_directory(folder.path() + "/checkpoints");
  std::ofstream(folder.path() + "/metrics.jsonl") << "{\"step\":0,\"weights_sha256\":\"a\"}\n{\"step\":0,\"w";
  std::ofstream(folder.path() + "/events.out.tfevents.1.host.2.0") << std::string(42, 'x');  // the head
  const FolderContents found = contents_of(folder.path());
  EXPECT_TRUE(found.has_configuration);
  EXPECT_FALSE(found.holds_run());
  for (const bool resume : {false, true}) EXPECT_EQ(start(found, "steps", resume, false), Start::fresh);
}

// The record of a step on CPUs, whose phase `checkpoint` has taken 163.4 ms.
constexpr char kStepWithPhases[] =
    "{\"step\":20,\"loss\":5,\"phases\":{\"data\":0.5,\"checkpoint\":163.4,\"report\":1}}\n";

TEST(RunFolder, ThePhaseOfASaveIsNoCheckpoint) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/resolved.yaml") << "steps: 30\n";
  std::ofstream(folder.path() + "/metrics.jsonl") << "{\"step\":0,\"weights_sha256\":\"a\"}\n" << kStepWithPhases;
  const FolderContents found = contents_of(folder.path());
  EXPECT_EQ(found.last_step, 20);
  EXPECT_EQ(found.last_checkpoint, 0);
  EXPECT_EQ(start(found, "", true, false), Start::resume);  // each of its saves has failed, and nothing is lost
}

TEST(RunFolder, StepsAfterACheckpointDoNotHideThatItIsGone) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/resolved.yaml") << "steps: 30\n";
  std::ofstream(folder.path() + "/metrics.jsonl")
      << "{\"step\":16,\"checkpoint\":15}\n"
      << kStepWithPhases << "{\"step\":21,\"loss\":5,\"phases\":{\"data\":0.5,\"checkpoint\":0,\"report\":1}}\n";
  const FolderContents found = contents_of(folder.path());
  EXPECT_EQ(found.last_checkpoint, 15);
  EXPECT_NE(refused(found, "", true).find("saved after step 15, and no checkpoint"), std::string::npos);
}

TEST(RunFolder, WhatIsWrittenAfterTheFirstStepIsNotReplacedByAnotherRun) {
  for (const auto& [name, text] : {std::pair("metrics.jsonl", std::string("{\"step\":1,\"loss\":5}\n")),
                                   std::pair("metrics.jsonl", std::string("{\"step\": 0, \"loss\": 5}\n")),
                                   std::pair("metrics.jsonl", std::string(9, '\0')),  // after a loss of power
                                   std::pair("events.out.tfevents.1.host.2.0", std::string(200, 'x'))}) {
    const TemporaryFolder folder;
    std::ofstream(folder.path() + "/resolved.yaml") << "steps: 20\n";
    std::ofstream(folder.path() + "/" + name) << text;
    const FolderContents found = contents_of(folder.path());
    EXPECT_NE(refused(found, "steps", true).find("holds another run"), std::string::npos) << name << ": " << text;
    EXPECT_EQ(start(found, "", true, false), Start::resume);  // the same command goes on
  }
}

TEST(RunFolder, FilesOfOthersAreReplacedOnlyWithOverwrite) {
  const FolderContents found{.foreign = {"checkpoints", "metrics.jsonl"}};
  for (const bool resume : {false, true}) {
    const std::string said = refused(found, "", resume);
    EXPECT_NE(said.find("run.folder runs/a: has checkpoints, metrics.jsonl, which a run would replace"), said.npos)
        << said;
    EXPECT_EQ(start(found, "", resume, true), Start::replace);
  }
}

TEST(RunFolder, ARunWhoseCheckpointsAreGoneIsNotStartedAgain) {
  FolderContents found = kRun;
  found.has_checkpoint = false;
  const std::string said = refused(found, "", true);
  EXPECT_NE(said.find("saved after step 15, and no checkpoint; expected one in runs/a/checkpoints"), std::string::npos)
      << said;
  EXPECT_EQ(start(found, "", true, true), Start::replace);
  found.last_checkpoint = 0;  // the first save failed, or a crash came before its end
  EXPECT_EQ(start(found, "", true, false), Start::resume);
  EXPECT_NE(start_line(Start::resume, found).find("ended after step 20"), std::string::npos);
  EXPECT_EQ(start_line(Start::resume, kRun), "");
}

}  // namespace
}  // namespace strata::trainer
