#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
# Trains, saves and resumes a tiny model on two ranks under valgrind's memcheck, in a build for processors that
# valgrind knows (no AVX-512). Exit code 1 and valgrind's own lines where a stack has a frame of ours.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export SHARDMARK_BUILD=${SHARDMARK_BUILD:-$top/build-valgrind}
command -v valgrind >/dev/null || { echo "valgrind.sh: valgrind is missing: apt-get install valgrind" >&2; exit 3; }
"$top/scripts/setup.sh" -DSHARDMARK_ARCH=x86-64-v3 -DSHARDMARK_TESTS=OFF

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell OMPI_MCA_mpi_yield_when_idle=1
flags=()
if mpiexec --version | grep -q -i 'open *mpi\|openrte'; then
  flags=(--oversubscribe --bind-to none)
  if [[ $(id -u) == 0 ]]; then flags+=(--allow-run-as-root); fi
fi

checked() {
  echo "valgrind.sh: shardmark $*" >&2
  mpiexec ${flags[@]+"${flags[@]}"} -n 2 valgrind --quiet --error-exitcode=99 --leak-check=full \
    --errors-for-leak-kinds=definite --show-leak-kinds=definite --num-callers=30 --keep-debuginfo=yes \
    --suppressions="$top/tests/sanitizers/valgrind.supp" --log-file="$work/log.%p" "$SHARDMARK_BUILD/shardmark" "$@"
}

deck=(--set model.layers=1 --set model.width=16 --set model.heads=2 --set model.context=8 --set model.vocab=32
  --set data.kind=markov --set data.states=16 --set data.validation_samples=4 --set train.global_batch=4
  --set train.micro_batch=1 --set train.peak_flops=1e9 --set "output.dir=$work/out" --set checkpoint.every=2)
status=0
checked train "$top/inputs/tiny.toml" "${deck[@]}" --set train.steps=2 --set checkpoint.async=true || status=1
checked train "$top/inputs/tiny.toml" "${deck[@]}" --set train.steps=4 --resume auto \
  --set checkpoint.layout=file_per_rank --set parallel.offload=all || status=1
if grep -h -E 'shardmark::' "$work"/log.* >/dev/null || [[ $status != 0 ]]; then
  cat "$work"/log.* >&2
  echo "valgrind.sh: FAILED" >&2
  exit 1
fi
echo "valgrind.sh: nothing found"
