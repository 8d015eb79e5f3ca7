// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "train/run.hpp"

namespace shardmark {

Command add_train(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  add_deck_options(app, options->deck, options->overrides);
  app.add_option("--resume", options->resume.from,
                 "auto: go on from the newest checkpoint, from step 0 where there is none; or a file");
  app.add_option("--progress", options->progress,
                 "line, rows, or auto: a line on a terminal without a launcher")
      ->check(CLI::IsMember({"auto", "line", "rows"}));
  app.add_flag("--allow-new-data", options->resume.allow_new_data,
               "resume although the data differ from the checkpoint's");
  app.add_flag("--skip-damaged", options->resume.skip_damaged,
               "with --resume auto: pass over damaged checkpoints to the next older one");
  app.add_option("--deadline", options->deadline,
                 "stop in time for a save before this moment: Unix seconds, a local time like "
                 "2026-01-31T18:30:00, or +SECONDS from now; SIGUSR1 and SIGTERM stop a run too (code 75)");
  app.add_flag("--dry-run", options->dry_run,
               "print the deck, the mesh, and the memory and traffic of a rank, then stop");
  return [options] { return run_training(*options); };
}

}  // namespace shardmark
