// SPDX-License-Identifier: MIT
// The folder of a run. One process at a time holds its lock, and files are replaced atomically, so that readers never
// see an incomplete file.
#pragma once

#include <string>
#include <string_view>

#include "trainer/report/folder_contents.h"

namespace strata::trainer {

// The action of a run that depends on the contents of its folder.
enum class Start {
  fresh,    // the folder has no run
  resume,   // the folder has the same run: resume from its newest checkpoint
  replace,  // remove the run in the folder, then start
};

struct StartQuestion {
  FolderContents found = {};    // contents_of(the folder)
  std::string difference = {};  // keys that may not change but differ from the folder's configuration; may be empty
  bool resume = true;           // checkpoint.resume is not `never`
  bool overwrite = false;       // run.overwrite
};

// Decides without touching any file. Files of others with the names of a run's files are removed only with `overwrite`;
// otherwise this throws Error(configuration). Another run, or the same run if it may not or cannot be resumed, is
// replaced only with `overwrite`; otherwise this throws Error(configuration). The same run is resumed even with
// `overwrite`, so that a restart after a crash keeps its progress. A run that once finished a checkpoint, and whose
// folder has none now, cannot be resumed: somebody has moved or deleted its checkpoints.
Start decide_start(const StartQuestion& question, const std::string& path);

// Returns a line that says at which step the run starts. It is empty for a run that has a checkpoint: the trainer says
// from which step that run resumes, after it has verified the checkpoint.
std::string start_line(Start start, const FolderContents& found);

// Holds the lock of the folder during its lifetime. The kernel releases the lock whenever the process ends, even after
// a crash.
class RunFolder {
 public:
  // Creates the folder and its parents if they do not exist, and locks the folder. Throws Error(storage) if the path is
  // a symbolic link or not a folder, if it cannot be written, or if a live process holds the lock. A file system
  // without locks is a warning. It tests by writing, because root passes every check of mode bits. Only rank 0 may call
  // it.
  explicit RunFolder(std::string path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string path(std::string_view name) const;

  // Removes only the files that runs write, and resolved.yaml last.
  void clear() const;

  // Replaces the file atomically: the old or the new file exists at any time, also after a crash.
  void write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace strata::trainer
