"""One rank of a profiled training step with DistributedDataParallel: python rank.py RANK RANKS STORE_FILE FOLDER"""

import sys

import torch
import torch.distributed as dist

import torch_npu

rank, ranks, store, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.npu.set_device(rank)
dist.init_process_group("hccl", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4).npu(), device_ids=[rank])
profiler = torch_npu.profiler
with profiler.profile(
    on_trace_ready=profiler.tensorboard_trace_handler(folder, f"rank{rank}"),
    schedule=profiler.schedule(wait=0, active=2, repeat=1),
    experimental_config=profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1),
) as prof:
    for _ in range(2):
        model(torch.ones(2, 16).npu()).sum().backward()
        dist.all_reduce(torch.ones(4).npu())
        torch.npu.synchronize()
        prof.step()
dist.destroy_process_group()
