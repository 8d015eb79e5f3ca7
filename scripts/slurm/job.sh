# shellcheck shell=bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# What train.sbatch and train_gpu.sbatch share. One job trains in one or more links: it starts, goes on from the newest
# checkpoint, and where its time is over before the training is, it saves and queues itself again.
#
#   why the ranks stop                        what they do   what this script does
#   the deadline comes (squeue's end time)    save, code 75  queues the job again
#   SIGUSR1 (--signal, scancel --signal)      save, code 75  queues the job again
#   SIGTERM without SIGUSR1: scancel, limit   save, code 75  ends: whoever cancels does not want another link
#   preemption by requeue, scontrol requeue   save, code 75  ends: Slurm queues the job again itself
#
# A job that gained no step in a link, or had MAX_LINKS links, ends too.
#
# Variables, from the environment or site.conf:
#   OUTPUT            folder of the run, on a file system that all nodes share (runs/NAME-JOB); array tasks get a folder
#                     each in it
#   LAUNCHER          srun (default), or mpirun (Open MPI's, which passes SIGUSR1 on)
#   LAUNCHER_FLAGS    more options of it, in place of the default binding
#   MAX_LINKS         20
#   SHARDMARK_PROGRAM, SHARDMARK_TOP, SHARDMARK_SITE   build/shardmark; the project's folder; its site.conf

say() { echo "job: $*"; }

top=${SHARDMARK_TOP:-${SLURM_SUBMIT_DIR:-$PWD}}
site=${SHARDMARK_SITE:-$top/site.conf}
if [[ -f $site ]]; then
  set +eu # scripts of module systems do not bear these
  # shellcheck source=scripts/slurm/site.conf.example
  . "$site"
  set -eu
fi
LAUNCHER=${LAUNCHER:-srun}
program=${SHARDMARK_PROGRAM:-$top/build/shardmark}
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID} # as Slurm's commands name it
output=${OUTPUT:-$top/runs/$SLURM_JOB_NAME-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
output+=${SLURM_ARRAY_TASK_ID:+/repeat_$SLURM_ARRAY_TASK_ID}

# Starts the ranks of this job, and becomes the launcher.
launch() {
  local flags=() blocking=() cores=${SLURM_CPUS_PER_TASK:-1}
  local ranks=$((SLURM_JOB_NUM_NODES * ${SLURM_NTASKS_PER_NODE:-1}))
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cores} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
  export OMP_PLACES=${OMP_PLACES:-cores}
  case $LAUNCHER in
    srun)
      read -ra flags <<<"${LAUNCHER_FLAGS---cpu-bind=cores}"
      exec srun --ntasks="$ranks" --cpus-per-task="$cores" ${flags[@]+"${flags[@]}"} "$@"
      ;;
    mpirun)
      # Slurm sends SIGTERM to all processes of a job that it ends. Open MPI's mpirun and its daemons would kill the
      # ranks a second later, in the middle of a save: they start with that signal blocked, and end with the ranks.
      if env --block-signal=TERM true 2>/dev/null; then
        export OMPI_MCA_orte_launch_agent="env --block-signal=TERM orted"
        blocking=(env --block-signal=TERM)
      fi
      read -ra flags <<<"${LAUNCHER_FLAGS---bind-to core --map-by slot:PE=$cores}"
      exec ${blocking[@]+"${blocking[@]}"} mpirun -n "$ranks" ${flags[@]+"${flags[@]}"} "$@"
      ;;
    *)
      say "LAUNCHER=$LAUNCHER is unknown; valid: srun, mpirun"
      exit 2
      ;;
  esac
}

# "--deadline TIME", from the end of the job that squeue shows; nothing for a job without a limit.
deadline() {
  local end
  end=$(squeue --noheader --jobs="$job" --format=%e) || say "squeue does not tell when this job ends" >&2
  if [[ $end == [0-9]* ]]; then echo "--deadline $end"; fi
}

# A number of report.json, by its name.
reported() { sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$output/report.json" 2>/dev/null; }

# Signals that this shell got. Either way the launcher passes SIGUSR1 on to the ranks, which save; SIGTERM would make
# mpirun kill them.
user_signals=0
terminations=0
launcher=
on_signal() {
  if [[ $1 == USR1 ]]; then user_signals=$((user_signals + 1)); else terminations=$((terminations + 1)); fi
  say "SIG$1 in link $link: the ranks are to save and to leave"
  if [[ -n $launcher ]]; then kill -USR1 "$launcher" 2>/dev/null || true; fi
}

# Waits for the launcher, whatever signals come meanwhile, and sets `code` to its exit code.
wait_for_launcher() {
  local signals=-1
  while [[ $signals != $((user_signals + terminations)) ]]; do
    signals=$((user_signals + terminations))
    code=0
    wait "$launcher" || code=$?
  done
}

train() { # DECK [OPTION…]
  link=$((${SLURM_RESTART_COUNT:-0} + 1))
  say "link $link of job $job on ${SLURM_JOB_NODELIST:-?}, results in $output"
  local deadline
  read -ra deadline <<<"$(deadline)"
  cd "$top" # decks name their data from there
  mkdir -p "$output"
  trap 'on_signal USR1' USR1
  trap 'on_signal TERM' TERM
  launch "$program" train "$@" --set "output.dir=$output" --resume auto ${deadline[@]+"${deadline[@]}"} </dev/null &
  launcher=$!
  wait_for_launcher
  say "link $link ended with code $code"
  if [[ $code == 75 ]]; then queue_again; fi
  exit "$code"
}

queue_again() {
  if ((terminations > 0 && user_signals == 0)); then
    say "this job was cancelled or is queued again by Slurm: nothing more to do here"
  elif [[ $(reported steps) == "$(reported first_step)" ]]; then
    say "no step was gained: not queued again; a link needs more time"
  elif ((link >= ${MAX_LINKS:-20})); then
    say "MAX_LINKS=${MAX_LINKS:-20} links are done: not queued again"
  else
    say "queueing job $job again after step $(reported steps)"
    trap '' TERM # that ends this shell
    scontrol requeue "$job"
  fi
}
