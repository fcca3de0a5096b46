// SPDX-License-Identifier: MIT
// train CONFIG [a.b.c=value ...]: one rank of a run. mpirun or srun starts it; started alone, it is a run of one rank.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/end_process.h"
#include "base/errors.h"
#include "base/ranks.h"
#include "base/text/printable.h"
#include "kernels/level_matrix.h"
#include "modules/config/level_report.h"
#include "sharding/process/failure.h"
#include "sharding/process/stop_request.h"
#include "sharding/rank_session.h"
#include "trainer/checkpoint/rollbacks.h"
#include "trainer/config/load_config.h"
#include "trainer/config/seen_targets.h"
#include "trainer/data/text/sidecar.h"
#include "trainer/data/text/token_file.h"
#include "trainer/layout/coding.h"
#include "trainer/levels/sparsity_report.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/report/folder_contents.h"
#include "trainer/report/kept_tokenizer.h"
#include "trainer/report/run_folder.h"
#include "trainer/report/shared_folder.h"
#include "trainer/settle_recompute.h"
#include "trainer/start_rank.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"
#include "trainer/trainer.h"

namespace strata::trainer {
namespace {

// A run whose memory cannot be predicted starts all the same.
std::string predicted_memory(const TrainerConfig& config) {
  const PeakMemory memory(config);
  try {
    return memory.table(trace_step_without_data(config));
  } catch (const c10::Error& error) {
    return memory.table(std::nullopt) + "  because of " + error.what_without_backtrace() + "\n";
  }
}

// Claims the run's folder and writes the files that describe the run. Called on rank 0.
std::unique_ptr<RunFolder> claim_folder(const TrainerConfig& config, const std::string& resolved,
                                        const kernels::Target& target) {
  auto folder = std::make_unique<RunFolder>(config.run.folder);
  const FolderContents found = contents_of(config.run.folder);
  const std::string before = folder->path("resolved.yaml");
  const std::string difference =
      found.holds_run() ? difference_from_folder(config, before, found.newest_checkpoint) : "";
  const StartQuestion question{.found = found,
                               .difference = difference,
                               .resume = config.checkpoint.resume != Resume::never,
                               .overwrite = config.run.overwrite};
  const Start start = decide_start(question, config.run.folder);
  if (start == Start::replace) folder->clear();
  sharding::remove_stale_report(config.run.folder);
  folder->write("resolved.yaml", resolved);
  const auto [groups, modules] = declared_model(config);
  const std::string table = modules::level_table(config.kernels, modules) +
                            modules::format_table(config.kernels, config.precision.linear, modules, target.gpu) +
                            sparsity_report(config, modules);
  folder->write("kernels.txt", table);
  if (const std::string tokens = token_files_of(config.data); !tokens.empty()) {
    keep_tokenizer(tokens, *folder, /*replace=*/start == Start::fresh && found.has_configuration,
                   [&] { return tokens_are_bytes(token_paths(tokens).front()); });
  }
  const std::string memory = predicted_memory(config);
  folder->write("memory.txt", memory);
  std::printf("%s", table.c_str());
  std::printf("%sbytes of tensors on a rank:\n%s", coding_report(buffer_rules(config), groups).c_str(), memory.c_str());
  const std::string line = start_line(start, found);
  if (!line.empty()) std::printf("%s\n", line.c_str());
  return folder;
}

// True on all ranks if any of them was asked to stop.
bool stop_is_requested(const sharding::RankSession& session) {
  const std::vector<std::string> asked = session.gather(sharding::stop_requested_here() ? "stop" : "");
  return std::find(asked.begin(), asked.end(), "stop") != asked.end();
}

// Trains to the end of the run. After a rollback a new Trainer goes on, as in a resumed run.
ExitCode train(TrainerConfig config, const std::string& resolved, sharding::RankSession& session) {
  Rollbacks rollbacks;
  while (true) {
    if (const std::optional<ExitCode> code = Trainer(config, resolved, session, rollbacks).train()) return *code;
    // The next model finds the memory of the last one free, and not split into the blocks of another step.
    if (session.device().is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
    config.fault = config.fault.after_rollback(rollbacks.last_step());
  }
}

ExitCode run(LoadedConfig loaded) {
  // By default a signal kills. A run that is asked to stop while it starts must end as one that may be started again.
  sharding::install_stop_handlers();
  const RunConfig& settings = loaded.config.run;
  sharding::RankSession session({.timeout_seconds = settings.timeout});
  start_rank(loaded, session);
  settle_recompute(loaded, session);
  const std::string resolved = loaded.resolved();

  const Ranks ranks{session.rank(), session.ranks(), [&](const std::string& text) { return session.gather(text); }};
  std::unique_ptr<RunFolder> folder;  // holds the lock of the folder
  gather_results(ranks, [&] {
    if (ranks.rank == 0) folder = claim_folder(loaded.config, resolved, kernels::target_of(session.device()));
    return std::string();
  });
  sharding::set_report_folder(settings.folder);
  require_shared_folder(settings.folder, session.host(), ranks);
  if (stop_is_requested(session)) {
    if (ranks.rank == 0) std::printf("asked to stop before the first step: nothing is lost\n");
    return ExitCode::preempted;
  }
  return train(loaded.config, resolved, session);
}

int run_command(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help") {
    std::printf("train CONFIG [a.b.c=value ...]\n\n%s", help_text().c_str());
    return arguments.empty() ? static_cast<int>(ExitCode::configuration) : 0;
  }
  std::optional<LoadedConfig> loaded;
  try {  // before MPI starts
    loaded = load_run_config(arguments[0], {arguments.begin() + 1, arguments.end()});
    check_targets(*loaded);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
    return static_cast<int>(error.code());
  }
  return exit_code_of([&] { return run(*loaded); });
}

}  // namespace
}  // namespace strata::trainer

int main(int argc, char** argv) { strata::end_process(strata::trainer::run_command({argv + 1, argv + argc})); }
