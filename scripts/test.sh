#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/test.sh [--sanitize | --valgrind] [CTEST OPTION…]

Sets up, builds and runs all tests. Options go to ctest, for example -L style, -LE style, -R checkpoint, -V.
Labels: unit, comm, training, checkpoint, cli, golden, slurm, slow, style, configure;
`ctest --test-dir build --print-labels` lists all.

  --sanitize  tests of the code only, in build-sanitize/, with checks of addresses, leaks and undefined behaviour
  --valgrind  no tests but a short run on two ranks under memcheck, in build-valgrind/

Environment: SHARDMARK_BUILD names another build folder; CTEST_PARALLEL_LEVEL sets how many cores tests take.
END
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=build
setup=(--tests)
select=()
case ${1:-} in
  -h | --help) usage && exit 0 ;;
  --sanitize)
    shift
    folder=build-sanitize
    setup+=(-DSHARDMARK_SANITIZE=ON)
    # Under sanitizers processes take more memory than the ledger's, which the label memory compares with.
    select=(-LE '^(style|configure|slurm|slow|memory)$')
    ;;
  --valgrind)
    shift
    exec "$top/tests/sanitizers/valgrind.sh" "$@"
    ;;
esac
export SHARDMARK_BUILD=${SHARDMARK_BUILD:-$top/$folder}

"$top/scripts/setup.sh" "${setup[@]}"
# Tests state how many ranks they start, so that ctest fills the cores and no more.
CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)} \
  ctest --test-dir "$SHARDMARK_BUILD" --output-on-failure --no-tests=error ${select[@]+"${select[@]}"} "$@"
