"""What `import torch_npu` does to the process: nothing but what it must."""

from __future__ import annotations

import functools
import json

import pytest
import torch

from tests.core import tools
from torch_npu.npu import _spread

# What it is about happens at import.
run, output = functools.partial(tools.run, fresh=True), functools.partial(tools.output, fresh=True)

# Modules, classes and functions of torch by dotted name → identity, before and after, in one process.
SNAPSHOT = """
import json, sys, types
import torch
import torch.utils.backend_registration, torch.distributed, torch.nn.utils.rnn, torch.serialization
import torch.multiprocessing
import torch.amp, torch.optim, torch.profiler, torch._dynamo.device_interface, torch.utils.data

def attributes():
    found, seen = {}, set()
    for name, module in sorted(sys.modules.items()):
        if (name == "torch" or name.startswith("torch.")) and isinstance(module, types.ModuleType):
            for key, value in list(vars(module).items()):
                found[f"{name}.{key}"] = id(value)
                if isinstance(value, type) and value.__module__.startswith("torch") and value not in seen:
                    seen.add(value)
                    for inner, member in list(vars(value).items()):
                        found[f"{value.__module__}.{value.__qualname__}.{inner}"] = id(member)
    return found

keep = [attributes()]
# Keeps ids from being used again.
values = [list(vars(m).values()) for n, m in list(sys.modules.items()) if n.startswith("torch")]
before = attributes()
import torch_npu
after = attributes()
replaced = sorted(k for k in before if k in after and after[k] != before[k])
print(json.dumps({"replaced": replaced, "removed": sorted(set(before) - set(after))}))
"""
# What torch.utils.rename_privateuse1_backend replaces itself.
RENAME = {
    "torch._C._profiler.ProfilerActivity.__repr__",
    "torch._C._profiler.ProfilerActivity.__str__",
    "torch._C._profiler.ProfilerActivity.name",
    "torch._C._autograd.DeviceType.__repr__",
    "torch._C._autograd.DeviceType.__str__",
    "torch._C._autograd.DeviceType.name",
    "torch.utils.backend_registration._privateuse1_backend_name",
}
# They ask for the name "privateuse1", which no renamed device has; there is no registry (torch_npu/_dlpack.py).
DLPACK = {"torch.Tensor.__dlpack__", "torch.Tensor.__dlpack_device__"}
# Programs that carry handles call them by these names (torch_npu/multiprocessing); without it a handle would be a copy.
HANDLES = {f"torch.multiprocessing.reductions.reduce_{noun}" for noun in ("event", "storage", "tensor")}
# A PyTorch with CUDA has these for CUDA's tensors alone; without it nothing is there to be replaced.
SPREAD = (
    {f"torch._C.{function.__name__}" for function in _spread.FUNCTIONS} if torch.backends.cuda.is_built() else set()
)


def test_importing_replaces_nothing_but_the_seven_of_the_rename_dlpack_and_handles():
    found = json.loads(output(SNAPSHOT, TORCH_DEVICE_BACKEND_AUTOLOAD="0").splitlines()[-1])
    assert found["removed"] == []
    replaced = {name for name in found["replaced"] if not name.endswith((".__annotations__", ".__dict__", ".__doc__"))}
    # What Dynamo does of torch.npu is registered in lists that ask for the devices: its own note that it has, and the
    # pattern that its function for adding a folder makes anew.
    asked = {"torch._dynamo.device_interface._device_initialized", "torch._dynamo.trace_rules.SKIP_DIRS_RE"}
    assert replaced - RENAME - DLPACK - asked == HANDLES | SPREAD


def test_torch_loads_the_back_end_by_itself():
    assert output("import sys, torch; print('torch_npu' in sys.modules, torch.npu.is_available())") == "True True"


def test_autoload_can_be_turned_off():
    program = "import sys, torch; print('torch_npu' in sys.modules, hasattr(torch, 'npu'))"
    assert output(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False False"


FULL = pytest.mark.full  # each is an interpreter that imports torch


@pytest.mark.parametrize(
    ("autoload", "order"),
    [
        ("0", "torch_npu, torch"),
        ("1", "torch, torch_npu"),
        pytest.param("0", "torch, torch_npu", marks=FULL),
        pytest.param("1", "torch_npu, torch", marks=FULL),
    ],
)
def test_the_order_of_imports_does_not_matter(autoload, order):
    program = f"import {order}; print(torch.zeros(2, device='npu').device, torch.npu is torch_npu.npu)"
    assert output(program, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == "npu:0 True"


def test_importing_opens_no_device_and_starts_no_thread():
    text = output(
        """
        import os, sys
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import torch
        before = set(os.listdir("/proc/self/task"))
        import torch_npu
        maps = open("/proc/self/maps").read()
        threads = len(set(os.listdir("/proc/self/task")) - before)
        print(torch.npu.is_initialized(), "libascendcl" in maps, "libopapi" in maps, threads)
        """
    )
    assert text == "False False False 0"


MEASURE = """
import os, sys, time
sys.path[:] = [p for p in sys.path if p]
import torch
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before, begin = resident(), time.process_time()
import torch_npu
print(time.process_time() - begin, (resident() - before) / 2**20)
"""


def test_importing_is_cheap():
    """In one of ten processes: a busy machine makes what it shares, caches and cores, slower for some."""
    tries = (tuple(map(float, output(MEASURE, TORCH_DEVICE_BACKEND_AUTOLOAD="0").split())) for _ in range(10))
    figures = []
    for seconds, megabytes in tries:
        figures.append(f"{seconds:.2f} s of CPU, {megabytes:.0f} MB")
        if seconds <= 0.3 and megabytes <= 40:
            return
    raise AssertionError(figures)


def test_a_broken_environment_does_not_break_the_import():
    done = run("import torch; print(torch.ones(1).item())", ASCEND_HOME_PATH="/nonexistent", TASK_QUEUE_ENABLE="9")
    assert done.stdout.strip() == "1.0" and done.stderr == ""
