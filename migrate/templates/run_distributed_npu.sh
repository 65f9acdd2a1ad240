#!/usr/bin/env bash
# Starts one process a card, waits for all of them and returns the exit code of the first that failed (the others are
# then stopped, and its log's last lines are shown). Output goes to output_npu_CARD.log, that of rank 0 also to the
# terminal.
#
#   bash run_distributed_npu.sh [arguments of the script]
#
#   NPUS="0 1 2 3"   the cards, or NPUS=0,1,2,3 (default: ASCEND_RT_VISIBLE_DEVICES, else as many as torch_npu finds)
#   MASTER_ADDR, MASTER_PORT, NODE_RANK, NODES, PYTHON, LOG_DIR
set -u
cd "$(dirname -- "${BASH_SOURCE[0]}")" || exit 1
MAIN='@MAIN@'
PYTHON=${PYTHON:-python3}
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
export MASTER_PORT=${MASTER_PORT:-29688}
export HCCL_WHITELIST_DISABLE=${HCCL_WHITELIST_DISABLE:-1}
LOG_DIR=${LOG_DIR:-.}
NODES=${NODES:-1}
NODE_RANK=${NODE_RANK:-0}

refuse() {
  echo "run_distributed_npu.sh: $*" >&2
  exit 1
}

count=$(env -u ASCEND_RT_VISIBLE_DEVICES "$PYTHON" -c 'import torch, torch_npu; print(torch_npu.npu.device_count())') ||
  refuse "$PYTHON could not say how many cards there are"
asked=${NPUS:-${ASCEND_RT_VISIBLE_DEVICES:-}}
read -r -a cards <<<"${asked//,/ }"
[ -n "$asked" ] || mapfile -t cards < <(seq 0 $((count - 1)))
[ "${#cards[@]}" -gt 0 ] || refuse 'no card; set NPUS="0 1"'
for card in "${cards[@]}"; do
  [[ $card =~ ^(0|[1-9][0-9]{0,3})$ ]] || refuse "$card is no card: give numbers, NPUS=\"0 1\""
  [ "$card" -lt "$count" ] || refuse "there is no card $card: torch_npu finds $count, counted from 0"
done
# CANN reads ids as long as they ascend.
mapfile -t ascending < <(printf '%s\n' "${cards[@]}" | sort -nu)
[ "${#ascending[@]}" -eq "${#cards[@]}" ] || refuse "a card is named twice: ${cards[*]}"
cards=("${ascending[@]}")

# Every process sees the chosen cards, so LOCAL_RANK is also the number of its card among them.
export ASCEND_RT_VISIBLE_DEVICES
ASCEND_RT_VISIBLE_DEVICES=$(IFS=,; echo "${cards[*]}")
export RANK_SIZE=$((${#cards[@]} * NODES))
export WORLD_SIZE=$RANK_SIZE
export LOCAL_WORLD_SIZE=${#cards[@]}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$LOG_DIR"
LOG_DIR=$(cd -- "$LOG_DIR" && pwd) || exit 1

pids=()
declare -A logs
stop() { [ "${#pids[@]}" -eq 0 ] || kill "${pids[@]}" 2>/dev/null; }
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM

for local_rank in "${!cards[@]}"; do
  export LOCAL_RANK=$local_rank DEVICE_ID=${cards[$local_rank]}
  export RANK=$((NODE_RANK * ${#cards[@]} + local_rank))
  export RANK_ID=$RANK
  log="$LOG_DIR/output_npu_${cards[$local_rank]}.log"
  if [ "$local_rank" -eq 0 ]; then
    "$PYTHON" -u "$MAIN" "$@" > >(tee "$log") 2>&1 &
  else
    "$PYTHON" -u "$MAIN" "$@" >"$log" 2>&1 &
  fi
  pids+=($!)
  logs[$!]=$log
  echo "rank $RANK on card ${cards[$local_rank]}: pid $!, $log"
done

# Looked at in turn, not by `wait -n`: two that end together must both be seen, and the first failure names the code.
code=0
while [ "${#pids[@]}" -gt 0 ]; do
  sleep 0.2
  alive=()
  for pid in "${pids[@]}"; do
    if kill -0 "$pid" 2>/dev/null; then
      alive+=("$pid")
      continue
    fi
    wait "$pid"
    status=$?
    if [ "$status" -ne 0 ] && [ "$code" -eq 0 ]; then
      code=$status
      echo "run_distributed_npu.sh: process $pid ended with $status; the others are stopped. Its log, ${logs[$pid]}, ends:" >&2
      tail -n 10 "${logs[$pid]}" | sed 's/^/    /' >&2
    fi
  done
  pids=("${alive[@]+"${alive[@]}"}")
  [ "$code" -eq 0 ] || stop
done
exit "$code"
