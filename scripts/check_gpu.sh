#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/check_gpu.sh [--host-losses FILE] [CMAKE OPTION…]

Checks a CUDA build on this machine's GPU, on one rank, and times it: the tests, losses against those of a host build,
a few steps under compute-sanitizer, the rates of matrix products, and GPT-2 124M in bf16 at 1024 tokens. Takes 15
minutes at most; what is left over then counts as failed.

A build folder that holds the program is taken as it is, wherever it was built; else one is built with
scripts/configs/cuda-h100.cmake and the CMake options (Kokkos_ROOT names Kokkos with CUDA; -C FILE is another file).

  --host-losses FILE  metrics.jsonl of a host build of the same source. Without it build/shardmark makes them:
                      build/shardmark train inputs/reference.toml --set data.kind=markov --set output.dir=runs/host

Environment: SHARDMARK_BUILD, the CUDA build (default build-cuda) · Kokkos_ROOT · SHARDMARK_MINUTES (default 15)
· SHARDMARK_JOBS, compile jobs. Results and logs: runs/gpu/.
Exit codes: 0 all is well · 1 something failed · 2 bad arguments · 3 no GPU, compiler, Kokkos or library.
END
}

say() { printf 'check_gpu: %s\n' "$*" >&2; }
missing() { say "$*" && exit 3; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${SHARDMARK_BUILD:-$top/build-cuda}
host_losses=
configuration=(-C "$top/scripts/configs/cuda-h100.cmake")
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --host-losses)
      host_losses=${2:-}
      if [[ ! -r $host_losses ]]; then say "--host-losses needs a file: '$host_losses' can't be read" && exit 2; fi
      shift ;;
    -C) configuration=(-C "${2:-}") && shift ;;
    -*) configuration+=("$1") ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
if [[ -n $host_losses ]]; then host_losses=$(realpath "$host_losses"); fi
if [[ $build != /* ]]; then build=$PWD/$build; fi
cd "$top"

export PATH=$PATH:/usr/local/cuda/bin OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_PROC_BIND=false
last_second=$((60 * ${SHARDMARK_MINUTES:-15}))
out=$top/runs/gpu
failed=()

# check NAME COMMAND…: runs it with what is left of the time; its output goes to a log, of which the end is shown
# where it fails.
check() {
  local name=$1 log=$out/$1.log left=$((last_second - SECONDS)) status=0 start=$SECONDS
  shift
  if ((left < 1)); then status=124; else timeout --kill-after=10 "$left" "$@" >"$log" 2>&1 || status=$?; fi
  case $status in
    0) printf '%-24s PASSED  %d s\n' "$name" $((SECONDS - start)) ;;
    124 | 137) printf '%-24s FAILED  no time left\n' "$name" && failed+=("$name") ;;
    *) printf '%-24s FAILED  code %d, see %s\n' "$name" "$status" "$log" && tail -n 20 "$log" && failed+=("$name") ;;
  esac
}

# What has to be there.
if ! gpus=$(nvidia-smi -L 2>/dev/null) || [[ -z $gpus ]]; then
  missing "no GPU: nvidia-smi -L lists none"
fi
mkdir -p "$out"
if [[ ! -x $build/shardmark ]]; then
  nvcc=$(command -v nvcc) || missing "nvcc was not found: install the CUDA toolkit or put its bin/ on the PATH, or" \
    "carry a build here and name its folder by SHARDMARK_BUILD"
  if [[ " ${configuration[*]}" != *Kokkos_ROOT* && -z ${Kokkos_ROOT:-} ]]; then
    missing "Kokkos with CUDA was not found: set Kokkos_ROOT to its folder (scripts/configs/cuda-h100.cmake says how" \
      "to build it), or carry a build here and name its folder by SHARDMARK_BUILD"
  fi
  export CUDACXX=$nvcc
  roots=()
  if [[ -n ${Kokkos_ROOT:-} ]]; then roots=("-DKokkos_ROOT=$Kokkos_ROOT"); fi
  check configure cmake "${roots[@]}" "${configuration[@]}" -S "$top" -B "$build"
  check build cmake --build "$build" --parallel "${SHARDMARK_JOBS:-$(nproc)}"
  if [[ ! -x $build/shardmark ]]; then say "there is no program: see $out" && exit 1; fi
fi
program=$build/shardmark
if lost=$(ldd "$program" | grep 'not found'); then
  missing "$program needs libraries that are not here:" "$lost"
fi
info=$("$program" info 2>&1) || missing "$program does not start here: $info"
if [[ ! $info =~ execution_space\ +Cuda ]]; then missing "$program is not a build with CUDA: $info"; fi
printf '%s\n%s\n' "$gpus" "$info" | tee "$out/machine.txt"

# The tests that one rank can run.
for name in core comm comm_nccl data optim layers model labels launches schedule forecast checkpoint resume golden \
  engine training memory; do
  if [[ -x $build/tests/test_$name ]]; then check "test_$name" "$build/tests/test_$name"; fi
done

# Losses against those of a host build.
losses=(inputs/reference.toml --set data.kind=markov --progress rows)
if [[ -z $host_losses && -x $top/build/shardmark ]]; then
  check losses_of_host "$top/build/shardmark" train "${losses[@]}" --set output.dir="$out/host"
  host_losses=$out/host/metrics.jsonl
fi
check losses_of_device "$program" train "${losses[@]}" --set output.dir="$out/device"
check losses_agree python3 - "$host_losses" "$out/device/metrics.jsonl" <<'END'
import json, sys
if not sys.argv[1]:
    sys.exit("no losses of a host build: give --host-losses FILE, or build one in build/")
host, device = ([json.loads(line)["loss"] for line in open(name)] for name in sys.argv[1:])
worst = max(abs(a - b) / abs(a) for a, b in zip(host, device, strict=True))
print(f"{len(host)} steps, largest relative difference {worst:.1e}, last losses {host[-1]} and {device[-1]}")
sys.exit(worst > 1e-4)
END
tail -n 1 "$out/losses_agree.log" || true

# Memory errors of a few steps, in fp32 and in bf16.
for type in fp32 bf16; do
  check "sanitizer_$type" compute-sanitizer --error-exitcode 9 "$program" train inputs/reference.toml \
    --set precision.param="$type" --set train.steps=2 --set train.eval_every=0 --set output.dir="$out/sanitizer"
done

# Speed.
gpt2=(inputs/gpt2-124m.toml --set model.context=1024 --set precision.param=bf16 --set train.micro_batch=8
  --set train.global_batch=8 --set train.head_rows=8192)
check products "$program" bench gemm "${gpt2[@]}"
check gpt2_124m_bf16 "$program" train "${gpt2[@]}" --set train.steps=40 --set train.timing_warmup=10 \
  --set output.dir="$out/gpt2"
cat "$out/products.log" 2>/dev/null || true
grep -E '^(FOM|RESULT)' "$out/gpt2_124m_bf16.log" || true

printf '%d s in all, logs in %s\n' "$SECONDS" "$out"
if ((${#failed[@]} > 0)); then
  say "failed: ${failed[*]}"
  exit 1
fi
