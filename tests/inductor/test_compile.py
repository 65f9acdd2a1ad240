"""When the compiler hears of the npu, and that graphs of the CPU are compiled as without it."""

from __future__ import annotations

import pytest

from tests.core import tools

CPU_CODE = """
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
config.compile_threads, config.force_disable_caches = 1, True
if OURS:
    torch.compile(lambda x: (x.sin() * x.sum(1, keepdim=True)).t().contiguous())(torch.ones(4, 6, device="npu"))
    torch._dynamo.reset()

def function(x, i, w):
    y = torch.nn.functional.conv2d(x, w).relu()
    return y.argmax(), (x.sin() * x.sum(3, keepdim=True)).transpose(1, 2).contiguous().sum(0), x.exp()[i]

torch.manual_seed(0)
_, code = run_and_get_code(torch.compile(function), torch.randn(4, 8, 9, 9), torch.arange(3), torch.randn(70, 8, 3, 3))
lines = [line for line in code[0].splitlines() if "AOT ID" not in line]
print("\\n".join(lines))
"""


def test_import_takes_nothing_of_the_compiler():
    loaded = "[m for m in sys.modules if m.startswith(('torch._inductor', 'torch_npu._inductor'))]"
    assert tools.output(f"import sys, torch; torch.ones(1).npu(); print({loaded})", fresh=True) == "[]"


CACHED = """
import torch
from torch._dynamo.utils import counters
from torch._inductor import config, cpp_builder
config.compile_threads = 1
runs, build = [], cpp_builder.CppBuilder.build
cpp_builder.CppBuilder.build = lambda self: (runs.append(self.get_command_line()), build(self))[1]
function = torch.compile(lambda x, s: (x.sin() * s).sum(1))
y = function(torch.full((4, 6), 0.5, device="npu"), torch.tensor(3.0))
assert torch.allclose(y.cpu(), torch.full((4,), 18.0) * torch.tensor(0.5).sin())
print(counters["inductor"]["fxgraph_cache_hit"], any(" -E " not in run for run in runs))  # -E: reads headers alone
"""


@pytest.mark.full
def test_a_second_process_compiles_nothing_and_the_log_shows_what_was(tmp_path):
    settings = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCH_LOGS": "graph_breaks,output_code"}
    first, second = (tools.run(CACHED, fresh=True, timeout=600, **settings) for _ in range(2))
    assert [done.stdout.splitlines()[-1] for done in (first, second)] == ["0 True", "1 False"]
    assert "cpp_fused_" in first.stderr and "device='npu'" in first.stderr


@pytest.mark.full
def test_code_for_the_cpu_is_the_same_with_and_without_us():
    ours = tools.output(CPU_CODE.replace("OURS", "True"), fresh=True, timeout=600)
    theirs = tools.output(CPU_CODE.replace("OURS", "False"), fresh=True, timeout=600, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "async_compile" in ours and ours == theirs
