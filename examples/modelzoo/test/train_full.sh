#!/bin/bash
# bash train_full.sh NPUS --data_path=FOLDER [arguments of main.py]: one process an NPU, bound to its share of the cores;
# each logs to output/<rank>/train_<rank>.log, and what training reached is printed at the end.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
npus=${1:?usage: train_full.sh NPUS --data_path=FOLDER [arguments of main.py]}
if [[ ! $npus =~ ^[1-9][0-9]*$ ]]; then
    echo "train_full.sh: $npus is no number of NPUs" >&2
    exit 2
fi
shift
source "$here/env_npu.sh"
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-29501} WORLD_SIZE=$npus
cores=$(nproc)
share=$((cores / npus > 0 ? cores / npus : 1))
start=$(date +%s)
pids=() failed=0
for ((rank = 0; rank < npus; rank++)); do
    mkdir -p "output/$rank"
    first=$((rank * share % cores))
    RANK=$rank LOCAL_RANK=$rank taskset -c $first-$((first + share - 1)) \
        python3 -u "$here/../main.py" "$@" >"output/$rank/train_$rank.log" 2>&1 &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=$?; done
if ((failed)); then
    tail -n 20 output/*/train_*.log >&2
    exit "$failed"
fi
log=output/0/train_0.log
echo "Final Performance images/sec : $(grep -o 'FPS [0-9.]*' $log | tail -n 1 | cut -d' ' -f2)"
echo "Final Train Accuracy : $(grep -o 'Acc@1 [0-9.]*' $log | tail -n 1 | cut -d' ' -f2)"
echo "E2E Training Duration sec : $(($(date +%s) - start))"
