"""cpp_wrapper and AOTInductor: eager's values, as tasks of the current stream, loaded by Python and by C++."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import torch_npu  # noqa: F401  torch.ops.npu
from tests import forked
from tests.conftest import ROOT
from tests.core import tools
from tests.core.tools import Gate, busy
from tests.inductor.models import QUICK, Perceptron, packaged, perceptron


def same(found, expected) -> None:
    for ours, theirs in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        assert ours.stride() == theirs.stride()


@pytest.mark.full
def test_a_wrapper_in_cpp():
    """Kernels, operators of ATen and of the NPU; a number in the memory of the CPU, taken at the call."""

    def step(x, weight, scale, index):
        y = torch.ops.npu.npu_rms_norm(x @ weight, weight[0], 1e-6)[0]
        return y * scale, x.t().argmax(), weight[index].sin().sum(1), y.sort(-1)[1]

    torch.manual_seed(0)
    weight, scale = torch.randn(16, 16).npu(), torch.tensor(2.0)
    index = torch.tensor([3, 1, 2]).npu()
    with config.patch({**QUICK, "cpp_wrapper": True}):
        compiled = torch.compile(step, dynamic=True, fullgraph=True)
        for rows in (5, 700):
            x = torch.randn(rows, 16).npu()
            same(compiled(x, weight, scale, index), step(x, weight, scale, index))
    expected = step(x, weight, scale, index)
    busy(torch.npu.current_stream(), 0.2)
    found = compiled(x, weight, scale, index)
    done = torch.npu.current_stream().record_event()
    scale.fill_(100)
    assert not done.query()  # nothing was waited for
    same(found, expected)
    index.fill_(99)
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(x, weight, scale, index)
        torch.npu.synchronize()


def test_a_packaged_model():
    path, start = perceptron()
    torch.manual_seed(0)
    model = Perceptron().npu().eval()
    model.load_state_dict(start)
    loaded = torch._inductor.aoti_load_package(path)
    with torch.no_grad():
        for count in (4, 700):
            x = torch.randn(count, 8).npu()
            same(loaded(x), model(x))
        # On the stream of the call, behind what that waits for.
        expected, side = model(x), torch.npu.Stream()
        torch.npu.synchronize()
        gate = Gate(torch.npu.current_stream())
        behind = torch.npu.current_stream().record_event()
        with torch.npu.stream(side):
            found = loaded(x)
            side.synchronize()
            same(found, expected)
        assert not behind.query()
        gate.open()
        # Other weights, of the npu's and of the CPU's memory.
        for device in ("npu", "cpu"):
            other = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
            model.load_state_dict(other)
            given = {name: value.to(device) for name, value in other.items()}
            loaded.load_constants(given, check_full_update=True, allow_h2d_copy=device == "cpu")
            same(loaded(x), model(x))
        # On another device; what is current stays so.
        second = torch._inductor.aoti_load_package(path, device_index=1)
        model.load_state_dict(start)
        found = second(x.to("npu:1"))
        assert torch.npu.current_device() == 0 and found[0].device == torch.device("npu:1")
        same([value.cpu() for value in found], [value.cpu() for value in model(x)])
        # Other weights there, which are not written yet.
        late = {name: value.to("npu:1") for name, value in other.items()}
        busy(torch.npu.current_stream(1), 0.3)
        for value in late.values():
            value.add_(1)
        second.load_constants(late, check_full_update=True)
        model.load_state_dict({name: value + 1 for name, value in other.items()})
        same([value.cpu() for value in second(x.to("npu:1"))], [value.cpu() for value in model(x)])
        # Those of the first device, by which the second one waits for it.
        busy(torch.npu.current_stream(0), 0.3)
        late = {name: value + 2 for name, value in other.items()}
        second.load_constants(late, check_full_update=True)
        model.load_state_dict(late)
        same([value.cpu() for value in second(x.to("npu:1"))], [value.cpu() for value in model(x)])
        for wrong in (x.cpu(), x.to("npu:1")):
            with pytest.raises(RuntimeError, match="argument 0 of this model must be on npu:0"):
                loaded(wrong)
        # Captured, after a first call.
        model.load_state_dict(start)
        single = torch._inductor.aoti_load_package(path, run_single_threaded=True)
        single(x)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y, _ = single(x)
        x.copy_(torch.randn(700, 8))
        graph.replay()
        same(y, model(x)[0])


PROGRAM = r"""
#include <ATen/ops/linspace.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <iostream>

int main(int, char** argv) {
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  const auto x = at::linspace(-1, 1, 32, at::device(c10::DeviceType::PrivateUse1)).view({4, 8});
  for (int run = 0; run < 2; ++run) {
    const auto y = model.run({x});
    std::cout << y[0].device();
    for (const auto& value : y) std::cout << ' ' << value.cpu().sum().item<double>();
    std::cout << '\n';
  }
}
"""


@pytest.mark.full
def test_a_packaged_model_in_a_program_without_python(tmp_path):
    model = Perceptron().npu().eval()
    path = packaged(model, (torch.randn(4, 8).npu(),), tmp_path)
    home, ours = Path(torch.__file__).parent, Path(torch_npu.__file__).parent
    (tmp_path / "program.cpp").write_text(PROGRAM, encoding="utf-8")
    libraries = [f"-L{home}/lib", f"-L{ours}/lib", "-Wl,--no-as-needed", "-ltorch_npu", "-ltorch_cpu", "-lc10"]
    paths = [f"-Wl,-rpath,{home}/lib:{ours}/lib", f"-I{home}/include", f"-I{home}/include/torch/csrc/api/include"]
    command = ["g++", "-std=c++20", "-O0", "program.cpp", *paths, *libraries, "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(
        [tmp_path / "program", path], capture_output=True, text=True, check=True, env=dict(os.environ), timeout=300
    )
    model.total.zero_()
    x = torch.linspace(-1, 1, 32).view(4, 8).npu()
    for line in done.stdout.splitlines():
        device, *sums = line.split()
        with torch.no_grad():
            expected = [value.sum().item() for value in model(x)]
        assert device == "npu:0" and [float(s) for s in sums] == pytest.approx(expected, rel=1e-4, abs=1e-3)
    assert done.stderr == ""


def test_the_pages_program_in_cpp_compiles_and_runs_as_printed(tmp_path):
    """docs/compile.md: the model, main.cpp, and the command lines."""
    text = (ROOT / "docs" / "compile.md").read_text(encoding="utf-8")
    text = text[text.index("## Models without torch.compile") :]
    python, cpp, sh = (re.search(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)[1] for kind in ("python", "cpp", "sh"))
    (tmp_path / "main.cpp").write_text(cpp, encoding="utf-8")
    made = forked.run(["-c", python], cwd=tmp_path, timeout=300)
    assert made.returncode == 0, made.stderr[-4000:]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"], input=sh, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": path},
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[4, 8] on npu:0\n"), done.stderr[-4000:]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.qkv = nn.Embedding(50, 16), nn.Linear(16, 48)
        self.mix = nn.Conv1d(16, 16, 3, padding=1)
        self.scale = nn.Parameter(torch.rand(16))

    def forward(self, ids, factor):
        x = self.words(ids)
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = torch.ops.npu.npu_rms_norm(x, self.scale, 1e-6)[0]
        spread = torch.zeros_like(x).index_put((ids[:, 0] % x.shape[0],), x, accumulate=True)
        added = torch.zeros_like(x).scatter_add(1, ids[..., None].expand_as(x) % x.shape[1], x)
        chosen = torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))
        return x * factor, *x.topk(3), *x.sort(-1), x.cumsum(1), spread, added, chosen, F.max_pool1d(x, 2), x.var(1)


@pytest.mark.full
def test_a_packaged_model_with_many_operators(tmp_path):
    torch.manual_seed(0)
    model, factor = Attention().npu().eval(), torch.tensor(2.0)
    rows = torch.export.Dim("rows", min=2, max=64)
    ids = [torch.randint(0, 50, (count, 8)).npu() for count in (4, 9)]
    loaded = torch._inductor.aoti_load_package(packaged(model, (ids[0], factor), tmp_path, ({0: rows}, None)))
    with torch.no_grad(), config.patch({**QUICK, "cpp_wrapper": True}):
        compiled = torch.compile(model, fullgraph=True, dynamic=True)
        for given in ids:
            same(loaded(given, factor), model(given, factor))
            same(compiled(given, factor), model(given, factor))


@pytest.mark.full
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_training_with_a_wrapper_in_cpp(mode):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(6, 8)).npu()
    inputs = [torch.randn(3, 4, 8).npu() for _ in range(3)]
    gradients = []
    for how in (None, {"cpp_wrapper": True, **QUICK}):
        with config.patch(how or {}), torch.autocast("npu", dtype=torch.bfloat16):
            step = torch.compile(model, mode=mode) if how else model
            for x in inputs:
                model.zero_grad()
                loss = step(x).float().square().mean()
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=3e-2, atol=3e-2)


class Surrounded(nn.Module):
    def forward(self, x, w, factor):
        y = F.conv1d(x, w)
        return y * factor, y, torch.rand(8, device=x.device) + x[0, 0, 0]


@pytest.mark.full
def test_what_surrounds_a_packaged_model_changes_nothing(tmp_path):
    """Autocast, the device it is loaded for, and a number that is on the CPU."""
    x, w = torch.randn(2, 4, 40).npu(), torch.randn(4, 4, 3).npu()
    factor = torch.tensor(2.0)
    with config.patch(fallback_random=True):
        path = packaged(Surrounded().npu(), (x, w, factor), tmp_path)
    y = F.conv1d(x, w)
    loaded = torch._inductor.aoti_load_package(path)
    with torch.no_grad(), torch.autocast("npu", dtype=torch.bfloat16):
        same(loaded(x, w, factor)[:2], [y * factor, y])
    second = torch._inductor.aoti_load_package(path, device_index=1)
    assert {value.device for value in second(x.to("npu:1"), w.to("npu:1"), factor)} == {torch.device("npu:1")}
    with pytest.raises(RuntimeError, match="argument 2 of this model must be on the CPU"):
        loaded(x, w, factor.npu())


def test_where_no_library_of_cann_loads_graphs_of_the_cpu_have_a_key(tmp_path):
    """Inductor asks the passes of every device for the key of its cache, for every graph."""
    code = """
import torch, torch_npu
from torch_npu._inductor.passes import NpuGraphPass
assert NpuGraphPass().uuid()[1] is None
"""
    environment = {**os.environ, "ANYCEND_CANN": str(tmp_path)}
    done = forked.run(["-c", code], env=environment)
    assert done.returncode == 0, done.stderr


ENTERS = """
import ctypes
from pathlib import Path
import torch, torch_npu

class Former(ctypes.Structure):
    _fields_ = [("stream", ctypes.c_int64), ("device", ctypes.c_int32), ("stream_device", ctypes.c_int32)]

torch.zeros(1).npu()
former, library = Former(), ctypes.CDLL(str(Path(torch_npu.__file__).parent / "lib" / "libtorch_npu.so"))
assert library.aoti_torch_npu_enter(1, ctypes.c_void_p(64), ctypes.byref(former)) != 0
assert torch.npu.current_device() == 0
"""


def test_a_device_whose_stream_cannot_be_taken_is_not_entered():
    tools.run(ENTERS, ANYCEND_FAULT="aclrtSetDevice:error:2+")
