#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/slurm/scaling.sh [OPTION…] DECK [-- PROGRAM OPTION…]

Submits a weak and a strong scaling series, and a last job that gathers all results in one table. Run it where sbatch
is, in the project's folder, after ". site.conf".

  --nodes "1 2 4"     node counts ("1 2 4")
  --series NAME       strong (same global batch), weak (global batch grows with the nodes), or both (both)
  --batch N           global batch on the smallest number of nodes (that of the deck)
  --repeats N         runs of each size, tasks of one array, one after another (3)
  --results FOLDER    must not exist yet (runs/scaling-DATE)
  --script FILE       scripts/slurm/train.sbatch, or train_gpu.sbatch
  --sbatch "OPTION…"  more options for sbatch, for example "--ntasks-per-node=8 --cpus-per-task=4 --time=30"
  --collect FOLDER    submits nothing: makes the table of results that are there

Jobs run one after another, so that none disturbs another; each starts when the one before it has ended, well or not.
FOLDER then has SERIES/nodes_N/repeat_R/report.json of every run, and scaling.csv.
END
}

die() {
  echo "scaling: $*" >&2
  exit 2
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
nodes="1 2 4"
series=both
batch=
repeats=3
results=$PWD/runs/scaling-$(date +%Y%m%d-%H%M%S)
script=$top/scripts/slurm/train.sbatch
sbatch_options=()
deck=
program_options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --) program_options=("${@:2}") && break ;;
    --collect) exec python3 "$top/scripts/slurm/collect.py" "${2:?--collect needs a folder}" ;;
    --nodes | --series | --batch | --repeats | --results | --script | --sbatch)
      [[ $# -gt 1 ]] || die "$1 needs a value"
      case $1 in
        --nodes) nodes=$2 ;;
        --series) series=$2 ;;
        --batch) batch=$2 ;;
        --repeats) repeats=$2 ;;
        --results) results=$(realpath -m "$2") ;;
        --script) script=$2 ;;
        --sbatch) read -ra sbatch_options <<<"$2" ;;
      esac
      shift
      ;;
    -*) die "unknown option $1; --help lists all" ;;
    *) if [[ -z $deck ]]; then deck=$(realpath -m "$1"); else die "more than one deck: $deck, $1"; fi ;;
  esac
  shift
done

[[ -f $deck ]] || die "a deck is needed${deck:+; there is no $deck}"
[[ $nodes =~ ^[0-9\ ]*[1-9][0-9\ ]*$ ]] || die "--nodes \"$nodes\" is no list of numbers"
[[ $repeats =~ ^[1-9][0-9]*$ ]] || die "--repeats $repeats is no number"
[[ ! -e $results ]] || die "$results is there already; give another --results"
case $series in
  both) all_series="strong weak" ;;
  strong | weak) all_series=$series ;;
  *) die "--series $series is unknown; valid: strong, weak, both" ;;
esac
batch=${batch:-$(sed -n 's/^ *global_batch *= *\([0-9]*\).*/\1/p' "$deck")}
[[ $batch =~ ^[1-9][0-9]*$ ]] || die "$deck names no train.global_batch; give --batch"
smallest=$(tr -s ' ' '\n' <<<"$nodes" | sort -n | sed -n '/[1-9]/{p;q}')

mkdir -p "$results"
jobs=()
for name in $all_series; do
  for n in $nodes; do
    global_batch=$batch
    if [[ $name == weak ]]; then global_batch=$((batch * n / smallest)); fi
    after=()
    if [[ ${#jobs[@]} -gt 0 ]]; then after=("--dependency=afterany:${jobs[-1]}"); fi
    jobs+=("$(OUTPUT=$results/$name/nodes_$n sbatch --parsable --job-name="$name-$n" --nodes="$n" \
      --array="1-$repeats%1" --output="$results/%x-%a.out" ${after[@]+"${after[@]}"} \
      ${sbatch_options[@]+"${sbatch_options[@]}"} "$script" "$deck" --set "train.global_batch=$global_batch" \
      ${program_options[@]+"${program_options[@]}"})")
    echo "scaling: job ${jobs[-1]}: $name, $n nodes, global batch $global_batch, $repeats repeats"
  done
done
last=$(sbatch --parsable --job-name=collect --nodes=1 --ntasks=1 --time=10 --output="$results/collect.out" \
  --dependency="afterany:${jobs[-1]}" --wrap "python3 '$top/scripts/slurm/collect.py' '$results'")
echo "scaling: job $last gathers the results in $results/scaling.csv"
