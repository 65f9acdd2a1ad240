"""A rank of a launched job: says which store it was given and what all ranks sum up to."""

import os
import sys

import torch
import torch.distributed as dist

import torch_npu  # noqa: F401

options = {}
if len(sys.argv) > 1 and sys.argv[1].startswith("port="):
    os.environ["MASTER_PORT"] = sys.argv[1].removeprefix("port=")
if len(sys.argv) > 1 and "://" in sys.argv[1]:
    options = {"init_method": sys.argv[1], "rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl", **options)
if "fail" in sys.argv and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    sys.exit(3)
total = torch.full((3,), float(dist.get_rank() + 1), device="npu")
dist.all_reduce(total)
store = dist.distributed_c10d._get_default_store()
while isinstance(store, dist.PrefixStore):
    store = store.underlying_store
print(
    f"rank {dist.get_rank()} of {dist.get_world_size()}: {type(store).__name__} {total.tolist()}\n", end="", flush=True
)
dist.destroy_process_group()
