// SPDX-License-Identifier: MIT
// The folder of a run: claimed by one process at a time, and written so that a reader never sees half a file.
#pragma once

#include <string>
#include <string_view>

namespace strata::trainer {

// What a run does with what it finds in its folder.
enum class Start {
  fresh,    // nothing is there
  resume,   // the same run is there: go on from its newest checkpoint
  replace,  // remove what is there, then start
};

struct StartQuestion {
  bool holds_run = false;  // RunFolder::holds_run()
  std::string difference =
      {};                  // of the configuration from the one in the folder, in keys that may not change; empty: none
  bool resume = true;      // checkpoint.resume is not `never`
  bool overwrite = false;  // run.overwrite
};

// The rules, without a file touched. Another run, or the same one that may not be resumed, is replaced only with
// `overwrite`; without it this is Error(configuration). The same run is resumed even with `overwrite`, so that a crash
// and a restart do not throw its progress away.
Start decide_start(const StartQuestion& question, const std::string& path);

// Holds the lock of the folder as long as it lives; the kernel lets go of it when the process dies, however it dies.
class RunFolder {
 public:
  // Makes the folder and its parents where they are missing, and claims it. Throws Error(storage) when the path is a
  // symbolic link or no folder, when it cannot be written (tried, since root passes every test of mode bits), or when a
  // live process holds it. On rank 0 only.
  explicit RunFolder(std::string path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string path(std::string_view name) const;
  bool holds_run() const;  // resolved.yaml, metrics.jsonl or checkpoints stand there

  // Removes what runs write, and nothing else.
  void clear() const;

  // The old file or the new one stands there, also after a crash.
  void write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace strata::trainer
