#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/run.sh [DECK] [-n RANKS] [OPTION…]

Sets up, builds, and trains DECK (default: inputs/tiny.toml) on RANKS ranks (default: 2) of this machine.
Other options go to the program, for example --set train.steps=20 or --resume auto.
A DECK that is not in the current folder is looked for in the project's. Decks of the project run in the project's
folder, since they name its data; others run in the current folder. The exit code is the program's.

  scripts/run.sh
  scripts/run.sh inputs/tiny.toml -n 4 --set parallel.strategy=zero2

Environment: OMP_NUM_THREADS and OPENBLAS_NUM_THREADS (default 1 each) · MPIEXEC, another launcher
· SHARDMARK_MPIEXEC_FLAGS, in place of the flags chosen here · SHARDMARK_BUILD, another build folder.
END
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${SHARDMARK_BUILD:-$top/build}
deck=
ranks=2
options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    -n | --ranks) ranks=${2:-} && shift ;;
    -n[0-9]*) ranks=${1#-n} ;;
    --ranks=*) ranks=${1#--ranks=} ;;
    *) if [[ -z $deck && $1 != -* && $1 == *.toml ]]; then deck=$1; else options+=("$1"); fi ;;
  esac
  shift || break
done
deck=${deck:-$top/inputs/tiny.toml}
if [[ $deck != /* && -f $PWD/$deck ]]; then deck=$PWD/$deck; fi
if [[ $deck != /* && -f $top/$deck ]]; then deck=$top/$deck; fi
if [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "run: -n needs a number of ranks, at least 1" >&2
  exit 2
fi

"$top/scripts/setup.sh"

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
export OMP_PROC_BIND=${OMP_PROC_BIND:-$([[ $OMP_NUM_THREADS == 1 ]] && echo false || echo close)}
export OMP_PLACES=${OMP_PLACES:-cores}

# The launcher of the MPI that the program was built with.
launcher=${MPIEXEC:-$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")}
cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l || true)
usable=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)  # nproc obeys these two
if ((cores == 0 || cores > usable)); then cores=$usable; fi
share=$((cores / ranks))  # cores a rank; 0 means more ranks than cores
flags=()
case $("$launcher" --version 2>&1) in
  *"Open MPI"* | *OpenRTE* | *PRRTE*)
    if [[ $(id -u) == 0 ]]; then flags+=(--allow-run-as-root); fi
    if [[ $share == 0 ]]; then flags+=(--map-by :OVERSUBSCRIBE --bind-to none)
    else flags+=(--map-by "slot:PE=$share" --bind-to core)
    fi ;;
  *HYDRA* | *MPICH*)
    if [[ $share != 0 ]]; then flags+=(-bind-to "core:$share"); fi ;;
esac
if [[ -n ${SHARDMARK_MPIEXEC_FLAGS+set} ]]; then read -ra flags <<<"$SHARDMARK_MPIEXEC_FLAGS"; fi

# Only this shell knows whether the output goes to a terminal: launchers give the program one in any case.
if [[ -t 1 && " ${options[*]-} " != *" --progress"* ]]; then options+=(--progress line); fi

if [[ $deck == "$top"/* ]]; then cd "$top"; fi
exec "$launcher" ${flags[@]+"${flags[@]}"} -n "$ranks" "$build/shardmark" train "$deck" ${options[@]+"${options[@]}"}
