#!/bin/bash
# Each example, one after the other, in a folder that is removed at the end: `make examples`. Some ten minutes on two cores.
# ColossalAI's packages come from the package index (build/clients/colossalai); without a network it is left out, and that is said.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONWARNINGS=ignore

run() {
    echo "== $*"
    "$@"
}

run python3 "$here/verify/verify.py"
run python3 "$here/quickstart/make_digits.py"
run python3 "$here/quickstart/train.py"
echo "== three ways from a GPU script to the NPU: by the variable, by hand, by pytorch_gpu2npu"
TORCH_TRANSFER_TO_NPU=1 python3 "$here/migration/train.py" --steps 3
python3 "$here/migration/train_by_hand.py" --steps 3
mkdir gpu && cp "$here/migration/train.py" gpu
pytorch_gpu2npu -i gpu -o . >gpu2npu.log
python3 gpu_msft/train.py --steps 3
for way in shell spawn launch torchrun torch_npu_run; do
    run bash "$here/distributed/run.sh" $way 2
done
run bash "$here/distributed/run.sh" torchrun 8
run python3 "$here/modelzoo/make_pictures.py" pictures
run bash "$here/modelzoo/test/train_full_1p.sh" --data_path=pictures
run bash "$here/modelzoo/test/train_full_8p.sh" --data_path=pictures
if colossalai=$(cd "$here/.." && python3 -m tests.clients.environment colossalai); then
    for arguments in "--epochs 2" "--epochs 3 --resume 2 --target-accuracy 0.5"; do
        run "$colossalai" -m torch.distributed.run --standalone --nproc_per_node=2 \
            "$here/colossalai/train.py" $arguments 2>colossalai.log || { cat colossalai.log >&2; exit 1; }
    done
else
    echo "ColossalAI was left out: its packages are not there"
fi
