"""Under msprof, with torch_npu.profiler at once: python profiled.py FOLDER"""

import sys

import torch

import torch_npu

profiler = torch_npu.profiler
a = torch.randn(8, 16).npu()
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).npu()
torch.npu.synchronize()
with profiler.profile(
    on_trace_ready=profiler.tensorboard_trace_handler(sys.argv[1]),
    record_shapes=True,
    experimental_config=profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, mstx=True),
):
    torch_npu.npu.mstx.mark("here")
    with torch_npu.npu.mstx.annotate("forward", domain="mine"):
        loss = model(a).sum()
    loss.backward()
    loss.cpu()
    a.zero_()
    torch.npu.synchronize()
