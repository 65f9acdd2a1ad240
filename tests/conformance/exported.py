"""What torch_npu.profiler exports besides its folder, and a profile that is analysed later: python -m
tests.conformance.exported FOLDER

With options that ask for figures of hardware, which the software NPU has not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import torch_npu

profiler = torch_npu.profiler


def main() -> None:
    folder = Path(sys.argv[1])
    a = torch.randn(8, 8).npu()
    torch.npu.synchronize()
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, mstx=True)
    prof = profiler._KinetoProfile(with_stack=True, experimental_config=config)
    prof.start()
    number = torch_npu.npu.mstx.range_start("work", torch.npu.current_stream())
    b = a @ a + 1
    torch_npu.npu.mstx.range_end(number)
    torch.npu.synchronize()
    prof.stop()
    prof.export_chrome_trace(str(folder / "chrome.json"))
    prof.export_stacks(str(folder / "stacks.log"), "self_npu_time_total")
    config = profiler._ExperimentalConfig(
        profiler_level=profiler.ProfilerLevel.Level1, l2_cache=True, sys_io=True, sys_interconnection=True,
        host_sys=[profiler.HostSystem.CPU],
    )  # fmt: skip
    later = profiler.tensorboard_trace_handler(str(folder / "later"), analyse_flag=False)
    with profiler.profile(on_trace_ready=later, experimental_config=config):
        b @ b
        torch.npu.synchronize()
    profiler.profiler.analyse(str(folder / "later"))


if __name__ == "__main__":
    main()
