#!/bin/bash
# train.py on the NPUs of this machine, started in one of five ways:
#
#   bash run.sh shell|spawn|launch|torchrun|torch_npu_run [NPUS=8] [arguments of train.py]
#
# MASTER_PORT names the port of rank 0 (default 29500). The script waits for all ranks and fails if one fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
way=${1:?usage: run.sh shell|spawn|launch|torchrun|torch_npu_run [NPUS] [arguments]}
npus=${2:-8}
shift $(($# > 2 ? 2 : $#))
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29500}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# One process an NPU, each on its share of the processor's cores.
shell() {
    export WORLD_SIZE=$npus
    local cores share first pids=() failed=0
    cores=$(nproc)
    share=$((cores / npus > 0 ? cores / npus : 1))
    for ((rank = 0; rank < npus; rank++)); do
        first=$((rank * share % cores))
        RANK=$rank LOCAL_RANK=$rank taskset -c $first-$((first + share - 1)) python3 -u "$here/train.py" "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=$?; done
    return $failed
}

address=(--nproc_per_node="$npus" --master_addr=$MASTER_ADDR --master_port="$MASTER_PORT")
case $way in
shell) shell "$@" ;;
spawn) python3 "$here/spawn.py" --npus "$npus" "$@" ;;
launch) python3 -m torch.distributed.launch "${address[@]}" "$here/train.py" "$@" ;;
torchrun) torchrun "${address[@]}" "$here/train.py" "$@" ;;
torch_npu_run) torch_npu_run --rdzv_backend=parallel "${address[@]}" "$here/train.py" "$@" ;;
*)
    echo "run.sh: $way is none of shell, spawn, launch, torchrun, torch_npu_run" >&2
    exit 2
    ;;
esac
