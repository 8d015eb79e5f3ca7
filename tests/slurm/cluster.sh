#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh - a real Slurm cluster (munged, slurmctld, N slurmds) of virtual nodes n1..nN on one machine.
#
#   cluster.sh start N [-d DIR] [--cpus C] [--kill-wait S] [--wait S]
#   cluster.sh stop    [-d DIR]        cancels the jobs, then ends every daemon by its pid file
#   cluster.sh status  [-d DIR]        exit 0: all daemons live, 1: some, 3: none
#   cluster.sh exec    [-d DIR] CMD…   runs CMD (sbatch, squeue, srun, bash…) on the cluster's head
#
# A node is one process tree with network, UTS, PID and mount namespaces of its own: its own hostname, NIC, address,
# process table and /dev/shm; the rest of the file system is shared by all, like a cluster's /home. The nodes' NICs
# meet on a bridge in the head's namespace, so nothing is added to the caller's network and no packet leaves.
# After `. DIR/env.sh`, sbatch and the other clients work from the caller's shell (DIR/bin enters the head for them).
# `kill -9 $(cut -d' ' -f1 DIR/run/n3.pid)` is a power cut of n3; `start N` again brings back whatever is missing.
#
# Needs root; no systemd. All state is under DIR (default $SLURM_CLUSTER_DIR, else ${TMPDIR:-/tmp}/slurm-cluster).
# --cpus: CPUs that each node advertises (2), however many the machine has.  --kill-wait: seconds from a job's
# SIGTERM to its SIGKILL (10).  --wait: seconds that start waits for the nodes (60).
# $SLURM_CLUSTER_PREFIX: the first three numbers of the addresses inside the namespaces (10.99.0).
set -euo pipefail

SELF=$(readlink -f "$0")
PACKAGES=(slurmctld slurmd slurm-client munge iproute2 util-linux)
CLIENTS=(sbatch srun salloc scancel squeue sinfo scontrol sacct sattach sbcast sdiag sprio sshare sstat strigger)

die() { echo "cluster: $*" >&2; exit 1; }
usage() { sed -n '5,/^set -/{/^#/s/^# \{0,1\}//p}' "$SELF"; }

# ---- daemons: run/NAME.pid holds "PID STARTTIME", so that a recycled pid is never taken for one of ours ----

stat_field() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f"$2"; } # counted from the state on
pid_of() { cut -d' ' -f1 "$DIR/run/$1.pid"; }
alive() {
    local pid start
    [ -s "$DIR/run/$1.pid" ] && read -r pid start <"$DIR/run/$1.pid" &&
        [ "$(stat_field "$pid" 20)" = "$start" ] && [ "$(stat_field "$pid" 1)" != Z ]
}
gone() { ! alive "$1"; }
init_of() { tr -d ' \n' <"/proc/$(pid_of "$1")/task/$(pid_of "$1")/children"; } # a node's pid 1, as seen from here
has_init() { [ -n "$(init_of "$1")" ]; }
daemons() { echo munged; echo head; echo slurmctld; seq -f 'n%.0f' "$N"; }

spawn() { # NAME CMD…: starts a daemon apart from this terminal, its pipes and our lock
    local name=$1 pid
    shift
    setsid "$@" </dev/null >>"$DIR/log/$name.out" 2>&1 9>&- &
    pid=$!
    echo "$pid $(stat_field "$pid" 20)" >"$DIR/run/$name.pid"
}
until_true() { # SECONDS CMD…
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}
end_daemon() { # NAME: TERM, then KILL
    local pid target
    if alive "$1"; then
        pid=$(pid_of "$1")
        target=$pid
        [[ $1 != n[0-9]* ]] || target=$(init_of "$1")
        kill -TERM "${target:-$pid}" 2>/dev/null || true
        until_true 5 gone "$1" || { kill -KILL "$pid" 2>/dev/null || true; until_true 5 gone "$1"; } ||
            die "$1 (pid $pid) does not end"
    fi
    rm -f "$DIR/run/$1.pid"
}
in_head() { nsenter -t "$(pid_of head)" -n -u -m -W "$PWD" -- "$@"; }

# ---- inside the namespaces ----

namespace_common() { # HOSTNAME
    hostname "$1"
    mount --bind "$DIR/etc/hosts" /etc/hosts
    mount -t tmpfs tmpfs /dev/shm
    ip link set lo up
}
head_main() {
    namespace_common head
    ip link add br0 type bridge
    ip addr add "$PREFIX.254/24" dev br0
    ip link set br0 up
    : >"$DIR/run/head.ready"
    exec sleep infinity
}
node_main() { # NAME: pid 1 of the node: it ends with its slurmd, and everything else on the node with it
    local slurmd
    namespace_common "$1"
    until_true 20 ip link show eth0 >/dev/null 2>&1 || die "$1: no eth0"
    ip addr add "$PREFIX.${1#n}/24" dev eth0
    ip link set eth0 up
    slurmd -D -N "$1" -f "$DIR/etc/slurm.conf" &
    slurmd=$!
    trap 'kill "$slurmd" 2>/dev/null || true' TERM
    while kill -0 "$slurmd" 2>/dev/null; do wait "$slurmd" || true; done
}

# ---- start ----

require_commands() {
    local c missing=()
    for c in slurmctld slurmd sbatch munged unshare nsenter ip; do
        command -v "$c" >/dev/null || missing+=("$c")
    done
    [ ${#missing[@]} -eq 0 ] || die "not installed: ${missing[*]} (packages ${PACKAGES[*]})"
}
write_config() {
    local i mem
    mem=$(awk -v n="$N" '/^MemTotal/ {print int($2 / 1024 / n)}' /proc/meminfo)
    [ -s "$DIR/munge/key" ] || (umask 077; head -c 128 /dev/urandom >"$DIR/munge/key")
    {
        cat /etc/hosts
        echo "$PREFIX.254 head"
        for ((i = 1; i <= N; i++)); do echo "$PREFIX.$i n$i"; done
    } >"$DIR/etc/hosts"
    {
        cat <<CONF
ClusterName=virtual
SlurmctldHost=head($PREFIX.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# cred_expire is also how long a requeued job waits before it may start again (120 s unless set)
AuthInfo=socket=$DIR/munge/socket,cred_expire=20
StateSaveLocation=$DIR/state
SlurmctldPidFile=$DIR/run/slurmctld.self
SlurmdPidFile=$DIR/run/%n.self
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/%n.log
SlurmdSpoolDir=$DIR/nodes/%n/spool
# mpi/pmix makes TmpFS/spmix_appdir_UID_JOB.STEP on each node: in one shared /tmp that fails with "File exists"
TmpFS=$DIR/nodes/%n/tmp
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
# no binding: CPU k of every virtual node is the same real core
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# a job starts as soon as it can: the defaults wait 3 s for a new batch job and up to 60 s for a held one
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
# each node has the CPUs and memory written below, whatever slurmd finds
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=30
KillWait=$KILL_WAIT
MailProg=/bin/true
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
JobCompType=jobcomp/filetxt
JobCompLoc=$DIR/log/jobcomp.txt
CONF
        for ((i = 1; i <= N; i++)); do
            echo "NodeName=n$i NodeAddr=$PREFIX.$i CPUs=$CPUS RealMemory=$mem State=UNKNOWN"
        done
        echo 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP'
    } >"$DIR/etc/slurm.conf"
}
write_clients() {
    local c
    cat >"$DIR/env.sh" <<ENV
export SLURM_CONF='$DIR/etc/slurm.conf'
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun refuses root otherwise
export OMPI_MCA_mpi_yield_when_idle=1 # there are more ranks than cores
export PATH='$DIR/bin':"\$PATH"
ENV
    cat >"$DIR/bin/.client" <<CLIENT
#!/bin/bash
# a Slurm client: on a node as it is, elsewhere in the head's namespaces
export SLURM_CONF='$DIR/etc/slurm.conf'
[ -n "\${SLURMD_NODENAME:-}" ] && exec "/usr/bin/\${0##*/}" "\$@"
exec nsenter -t "\$(cut -d' ' -f1 '$DIR/run/head.pid')" -n -u -m -W "\$PWD" -- "/usr/bin/\${0##*/}" "\$@"
CLIENT
    chmod 755 "$DIR/bin/.client"
    for c in "${CLIENTS[@]}"; do ln -sf .client "$DIR/bin/$c"; done
}
start_node() { # NAME: boots with an empty spool and tmp; sockets left by a power cut would fail a requeued step
    rm -rf "$DIR/nodes/$1"
    mkdir -p "$DIR/nodes/$1"/{spool,tmp}
    spawn "$1" unshare --net --uts --pid --fork --kill-child --mount-proc --propagation slave \
        "$SELF" _node "$1" -d "$DIR"
    until_true 10 has_init "$1" || die "node $1 did not start, see $DIR/log/$1.out"
    in_head ip link add "v$1" type veth peer name eth0 netns "$(init_of "$1")"
    in_head ip link set "v$1" master br0 up
}
ready_nodes() {
    [ "$("$DIR/bin/sinfo" -h -N -o %T 2>/dev/null | grep -cxE 'idle|mixed|allocated|completing')" -eq "$N" ]
}
start() {
    local up=no d
    [[ $WANT =~ ^[1-9][0-9]*$ && $WANT -le 250 ]] || die 'start needs a number of nodes from 1 to 250'
    require_commands
    mkdir -p "$DIR"/{etc,bin,log,run,state,munge,nodes}
    exec 9>"$DIR/lock"
    flock 9
    if load; then
        for d in $(daemons); do alive "$d" && up=yes; done
    fi
    if [ $up = yes ]; then
        [ "$N" = "$WANT" ] || die "a cluster of $N nodes runs in $DIR: stop it first"
    else
        rm -f "$DIR"/run/*
        N=$WANT CPUS=$OPT_CPUS KILL_WAIT=$OPT_KILL_WAIT PREFIX=${SLURM_CLUSTER_PREFIX:-10.99.0}
        printf '%s=%q\n' N "$N" CPUS "$CPUS" KILL_WAIT "$KILL_WAIT" PREFIX "$PREFIX" >"$DIR/settings"
        write_config
        write_clients
    fi
    if ! alive munged; then
        rm -f "$DIR/munge/socket" "$DIR/munge/socket.lock"
        # --force: a DIR closed to other users is fine, all clients are root's
        spawn munged munged --foreground --force --socket="$DIR/munge/socket" --key-file="$DIR/munge/key" \
            --pid-file="$DIR/munge/pid" --log-file="$DIR/log/munged.log" --seed-file="$DIR/munge/seed"
        until_true 10 test -S "$DIR/munge/socket" || die "munged did not start, see $DIR/log/munged.out"
    fi
    if ! alive head; then
        # the bridge went with the old head: whatever hung on it starts anew
        for d in slurmctld $(seq -f 'n%.0f' "$N"); do end_daemon "$d"; done
        rm -f "$DIR/run/head.ready"
        spawn head unshare --net --uts --mount --propagation slave "$SELF" _head -d "$DIR"
        until_true 10 test -e "$DIR/run/head.ready" || die "no head namespace, see $DIR/log/head.out"
    fi
    alive slurmctld || spawn slurmctld nsenter -t "$(pid_of head)" -n -u -m -- slurmctld -D -f "$DIR/etc/slurm.conf"
    for d in $(seq -f 'n%.0f' "$N"); do alive "$d" || start_node "$d"; done
    until_true "$OPT_WAIT" ready_nodes || {
        timeout 5 "$DIR/bin/sinfo" -N -l >&2 || true
        tail -v -n 5 -- "$DIR"/log/*.out "$DIR"/log/*.log >&2
        die "not all of $N nodes are ready after $OPT_WAIT s"
    }
    echo "cluster: $N nodes of $CPUS CPUs ready in $DIR; use: . $DIR/env.sh"
}

# ---- the other verbs ----

# shellcheck source=/dev/null
load() { [ -r "$DIR/settings" ] && . "$DIR/settings"; }
no_jobs() { [ -z "$(timeout 3 "$DIR/bin/squeue" -h -o %A 2>/dev/null)" ]; }
stop() {
    local d jobs
    load || { echo "cluster: none in $DIR"; return 0; }
    exec 9>"$DIR/lock"
    flock 9
    if alive slurmctld; then
        mapfile -t jobs < <(timeout 5 "$DIR/bin/squeue" -h -o %A 2>/dev/null | sort -u)
        if [ ${#jobs[@]} -gt 0 ]; then
            timeout 10 "$DIR/bin/scancel" "${jobs[@]}" || true
            until_true $((KILL_WAIT + 5)) no_jobs || echo 'cluster: some jobs end with their nodes' >&2
        fi
    fi
    for d in $(seq -f 'n%.0f' "$N") slurmctld head munged; do end_daemon "$d"; done
    rm -f "$DIR"/run/*
    echo "cluster: stopped ($DIR)"
}
status() {
    local d live=0 all=0
    load || { echo "cluster: none in $DIR"; return 3; }
    for d in $(daemons); do
        all=$((all + 1))
        if alive "$d"; then live=$((live + 1)); echo "$d: pid $(pid_of "$d")"; else echo "$d: not running"; fi
    done
    [ $live -gt 0 ] || return 3
    if alive head && alive slurmctld; then
        timeout 10 "$DIR/bin/sinfo" -N -l || true
        timeout 10 "$DIR/bin/squeue" || true
    fi
    [ $live -eq $all ]
}

# ---- command line ----

VERB=${1:-help}
shift || true
DIR=${SLURM_CLUSTER_DIR:-${TMPDIR:-/tmp}/slurm-cluster}
OPT_CPUS=2 OPT_KILL_WAIT=10 OPT_WAIT=60 WANT=
while [ $# -gt 0 ]; do
    case $1 in
        -d) DIR=$2; shift 2 ;;
        --cpus) OPT_CPUS=$2; shift 2 ;;
        --kill-wait) OPT_KILL_WAIT=$2; shift 2 ;;
        --wait) OPT_WAIT=$2; shift 2 ;;
        -*) die "unknown option $1" ;;
        *) [ "$VERB" != exec ] || break; WANT=$1; shift ;;
    esac
done
[ "$VERB" != help ] || { usage; exit 0; }
[ "$(id -u)" = 0 ] || die 'needs root'
DIR=$(readlink -m "$DIR")
[[ $DIR != *[[:space:]\']* && ${#DIR} -le 60 ]] ||
    die "$DIR: no blanks or quotes, and 60 characters at most (socket paths)"
case $VERB in
    start | stop | status) "$VERB" ;;
    exec)
        if ! load || ! alive head; then die "no cluster runs in $DIR"; fi
        # shellcheck source=/dev/null
        . "$DIR/env.sh"
        in_head "$@"
        ;;
    _head) load && head_main ;;
    _node) load && node_main "$WANT" ;;
    *) usage >&2; exit 2 ;;
esac
