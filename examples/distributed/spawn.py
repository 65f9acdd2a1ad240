"""train.py's ranks started by torch.multiprocessing.spawn:  python examples/distributed/spawn.py --npus 8"""

import os
import sys

import torch.multiprocessing as mp

from train import arguments, train


def worker(local_rank: int, world_size: int, args) -> None:
    train(local_rank, local_rank, world_size, args)


if __name__ == "__main__":
    npus = 8
    if "--npus" in sys.argv:
        at = sys.argv.index("--npus")
        npus = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(worker, args=(npus, arguments()), nprocs=npus)
