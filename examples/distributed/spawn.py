"""train.py's ranks started by torch.multiprocessing.spawn:  python examples/distributed/spawn.py --npus 8

On several hosts: NODES, NODE_RANK and MASTER_ADDR as in run.sh, --npus of each.
"""

import os
import sys

import torch.multiprocessing as mp

from train import arguments, train


def worker(local_rank: int, npus: int, args) -> None:
    nodes, node = int(os.environ.get("NODES", "1")), int(os.environ.get("NODE_RANK", "0"))
    train(node * npus + local_rank, local_rank, nodes * npus, args)


if __name__ == "__main__":
    npus = 8
    if "--npus" in sys.argv:
        at = sys.argv.index("--npus")
        npus = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(worker, args=(npus, arguments()), nprocs=npus)
