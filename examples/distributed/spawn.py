"""train.py's ranks started by torch.multiprocessing.spawn:  python examples/distributed/spawn.py --npus 8

On several hosts: NODES, NODE_RANK and MASTER_ADDR as in run.sh, --npus of each.
"""

import os

import torch.multiprocessing as mp

from train import command_line, train


def worker(local_rank: int, npus: int, args) -> None:
    nodes, node = int(os.environ.get("NODES", "1")), int(os.environ.get("NODE_RANK", "0"))
    train(node * npus + local_rank, local_rank, nodes * npus, args)


if __name__ == "__main__":
    parser = command_line()
    parser.add_argument("--npus", type=int, default=8)
    args = parser.parse_args()
    if args.npus < 1:
        parser.error(f"--npus {args.npus}: at least 1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(worker, args=(args.npus, args), nprocs=args.npus)
