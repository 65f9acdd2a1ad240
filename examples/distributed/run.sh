#!/bin/bash
# train.py on the NPUs of this machine, started in one of five ways:
#
#   bash run.sh shell|spawn|launch|torchrun|torch_npu_run [NPUS=8] [arguments of train.py]
#
# On several hosts, run it on each with the same arguments and, for two hosts of eight NPUs:
#
#   NODES=2 NODE_RANK=0 MASTER_ADDR=<address of the first> bash run.sh torchrun 8
#   NODES=2 NODE_RANK=1 MASTER_ADDR=<address of the first> bash run.sh torchrun 8
#
# MASTER_PORT names the port of rank 0 (default 29500). The script waits for its ranks and fails if one fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
way=${1:?usage: run.sh shell|spawn|launch|torchrun|torch_npu_run [NPUS] [arguments]}
npus=${2:-8}
if [[ ! $npus =~ ^[1-9][0-9]*$ ]]; then
    echo "run.sh: $npus is no number of NPUs" >&2
    exit 2
fi
shift $(($# > 2 ? 2 : $#))
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-29500}
export NODES=${NODES:-1} NODE_RANK=${NODE_RANK:-0}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# One process an NPU, each on its share of the processor's cores. LOCAL_RANK is the NPU, RANK counts over all hosts.
shell() {
    export WORLD_SIZE=$((NODES * npus))
    local cores share first local_rank pids=() failed=0
    cores=$(nproc)
    share=$((cores / npus > 0 ? cores / npus : 1))
    for ((local_rank = 0; local_rank < npus; local_rank++)); do
        first=$((local_rank * share % cores))
        RANK=$((NODE_RANK * npus + local_rank)) LOCAL_RANK=$local_rank taskset -c $first-$((first + share - 1)) python3 -u "$here/train.py" "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=$?; done
    return $failed
}

address=(--nnodes="$NODES" --node_rank="$NODE_RANK" --nproc_per_node="$npus" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT")
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
