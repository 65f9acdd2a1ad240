"""The switch itself: nothing before the import, everything undone afterwards, a clear refusal where it cannot work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.core import tools
from torch_npu.contrib import transfer_to_npu

WATCHED = """
import types
import torch, torch_npu
def snapshot():
    owners = [torch, torch._C, torch.cuda, torch.cuda.amp, torch.cuda.memory, torch.cuda.random, torch.cuda.streams,
              torch.cuda.nvtx, torch.cuda.graphs, torch.Tensor, torch._C.TensorBase, torch.amp, torch.amp.autocast_mode,
              torch.amp.GradScaler, torch.distributed, torch.distributed.distributed_c10d, torch.distributed.Backend,
              torch.storage, torch.storage._StorageBase, torch.UntypedStorage, torch.nn.Module, torch.jit,
              torch.serialization, torch._utils, torch._subclasses.fake_tensor.FakeTensor]
    return [{k: v for k, v in vars(o).items() if not isinstance(v, types.ModuleType) and k[:2] != '__'} for o in owners]
def changed(before, after):
    return sorted(k for b, a in zip(before, after) for k in b.keys() | a.keys() if b.get(k, 0) is not a.get(k, 0))
"""


NO_CUDA = "Found no NVIDIA driver" if torch.backends.cuda.is_built() else "not compiled with CUDA"


def run(script: str, fresh: bool = False) -> str:
    done = tools.run(
        "import warnings; warnings.simplefilter('error', UserWarning)\n" + script, fresh=fresh, imports=True
    )
    assert "UserWarning" not in done.stderr
    return done.stdout


def test_nothing_happens_before_the_import() -> None:
    run(
        "import torch, torch_npu, torch_npu.npu.amp\n"
        "assert not torch.cuda.is_available() and torch.cuda.device_count() == 0\n"
        "assert not torch.zeros(1, device='npu').is_cuda\n"
        "assert torch.backends.cuda.is_built() or not hasattr(torch._C, '_cuda_getDeviceCount')\n"
        "assert not torch_npu._C._cuda_alias_enabled()\n"
        "try:\n    torch.zeros(1, device='cuda')\n"
        f"except (AssertionError, RuntimeError) as error:\n    assert {NO_CUDA!r} in str(error)\n"
        "else:\n    raise SystemExit('cuda works')\n"
    )


def test_importing_the_package_alone_changes_nothing() -> None:
    assert run(WATCHED + "before = snapshot()\nimport torch_npu.contrib\nprint(changed(before, snapshot()))") == "[]\n"


def test_disable_restores_every_attribute() -> None:
    script = WATCHED + (
        "before = snapshot()\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "assert changed(before, snapshot())\n"
        "transfer_to_npu.disable()\n"
        "print(changed(before, snapshot()), transfer_to_npu.replaced())\n"
    )
    assert run(script) == "[] []\n"


def test_disable_makes_cuda_mean_cuda_again() -> None:
    bound = torch.Tensor.cuda
    with transfer_to_npu.disabled():
        for call in (
            lambda: torch.zeros(1, device="cuda"),
            lambda: torch.zeros(1).to("cuda"),
            lambda: torch.zeros(1).cuda(),
            lambda: torch.zeros(1, device="npu").to("cuda"),
            lambda: bound(torch.zeros(1)),
            lambda: torch.Generator("cuda"),
            lambda: torch.UntypedStorage(4, device="cuda"),
        ):
            with pytest.raises((AssertionError, RuntimeError)):
                call()
        with torch.autocast("npu"):
            assert not torch.is_autocast_enabled()
        assert not torch.cuda.is_available()
        assert torch.zeros(1, device="npu").add(1).item() == 1
    assert torch.zeros(1, device="cuda").add(1).item() == 1


def test_scripts_fail_again_after_disable() -> None:
    @torch.jit.script
    def move(t: torch.Tensor) -> torch.Tensor:
        return t.to("cuda")

    with transfer_to_npu.disabled(), pytest.raises(RuntimeError):
        move(torch.zeros(1))


def test_switching_many_times() -> None:
    names = transfer_to_npu.replaced()
    for _ in range(5):
        transfer_to_npu.disable()
        transfer_to_npu.disable()
        transfer_to_npu.enable()
        transfer_to_npu.enable()
    assert transfer_to_npu.is_enabled()
    assert transfer_to_npu.replaced() == names
    assert torch.ones(2).cuda(1).sum().item() == 2


def test_built_ins_keep_their_identity() -> None:
    with transfer_to_npu.disabled():
        stock = [torch.Tensor.cuda, torch.is_autocast_enabled, torch.Generator, torch.zeros, torch.Tensor.to]
    assert stock == [torch.Tensor.cuda, torch.is_autocast_enabled, torch.Generator, torch.zeros, torch.Tensor.to]


def test_no_factory_is_wrapped() -> None:
    replaced = " ".join(transfer_to_npu.replaced())
    for name in ("torch.zeros", "torch.tensor", "torch.load", "torch.jit", "Module", "Tensor.to", "torch.device"):
        assert name not in replaced


def test_import_order_does_not_matter() -> None:
    run(
        "from torch_npu.contrib import transfer_to_npu\n"
        "from torch_npu.npu import amp\nimport torch\n"
        "assert torch.ones(2).cuda().sum().item() == 2\n"
        "with amp.autocast():\n"
        "    assert (torch.ones(2, 2, device='cuda') @ torch.ones(2, 2, device='cuda')).dtype is torch.float16\n"
    )


def test_no_warning_filter_is_left() -> None:
    script = (
        "import warnings, torch, torch_npu\nbefore = list(warnings.filters)\n"
        "from torch_npu.contrib import transfer_to_npu\nprint(warnings.filters == before)\n"
    )
    assert run(script) == "True\n"


def test_the_environment_variable() -> None:
    script = (
        "import os; os.environ['TORCH_TRANSFER_TO_NPU'] = '1'\n"
        "import torch\nprint(torch.zeros(1, device='cuda').device)"
    )
    assert run(script, fresh=True) == "npu:0\n"


def test_an_empty_environment_variable_is_as_none() -> None:
    script = "import os; os.environ['TORCH_TRANSFER_TO_NPU'] = ''\nimport torch\nprint(torch.cuda.is_available())"
    assert run(script, fresh=True) == "False\n"


def test_a_wrong_value_of_the_environment_variable_is_an_error() -> None:
    result = subprocess.run(
        [sys.executable, "-P", "-c", "import os; os.environ['TORCH_TRANSFER_TO_NPU'] = 'yes'\nimport torch"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "TORCH_TRANSFER_TO_NPU=yes is neither 0 nor 1" in result.stderr


def test_spawned_workers_import_it_again(tmp_path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(
        "import torch\nfrom torch_npu.contrib import transfer_to_npu\n"
        "def work(rank):\n"
        "    torch.cuda.set_device(rank)\n"
        "    assert torch.ones(2).cuda().device == torch.device('npu', rank)\n"
        "if __name__ == '__main__':\n"
        "    torch.multiprocessing.spawn(work, nprocs=2)\n"
    )
    done = forked.run([script])
    assert done.returncode == 0, done.stderr


def test_a_script_of_the_quick_starts_shape(tmp_path) -> None:
    """Device by CUDA's name, SGD, autocast, scaler, checkpoint: the loss falls as it does in float32 on the CPU."""
    from torch import nn

    from torch_npu.npu import amp

    def train(device: str, mixed: bool) -> tuple[list[float], nn.Module]:
        torch.manual_seed(0)
        device = torch.device(device)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, 1, 1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 7 * 7, 16), nn.ReLU(),
            nn.Linear(16, 10),
        ).to(device)  # fmt: skip
        loss_func = nn.CrossEntropyLoss().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = amp.GradScaler(enabled=mixed)
        images, labels = torch.randn(64, 1, 14, 14), torch.arange(64) % 10
        losses = []
        for _ in range(20):
            with amp.autocast(enabled=mixed):
                loss = loss_func(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses, model

    losses, model = train("cuda:0", mixed=True)
    assert losses == pytest.approx(train("cpu", mixed=False)[0], abs=0.02)
    torch.save({"epoch": 1, "state_dict": model.state_dict()}, tmp_path / "checkpoint.pth.tar")
    state = torch.load(tmp_path / "checkpoint.pth.tar", map_location="cpu")["state_dict"]
    assert torch.equal(state["0.weight"], model[0].weight.detach().cpu())


TAKEN = """
import contextlib, runpy, sys
import torch, torch_npu
cuda_is_taken = runpy.run_path({conftest!r})["cuda_is_taken"]
if torch.backends.cuda.is_built():  # it is: by CUDA
    cuda_is_taken = contextlib.nullcontext
with cuda_is_taken():
    before = torch._C._dispatch_dump("aten::empty.memory_format"), torch._C._dispatch_dump("aten::to.device")
    from torch_npu.contrib import transfer_to_npu
    assert torch.zeros(2, device="cuda:1").device == torch.ones(2).cuda(1).device == torch.device("npu", 1)
    transfer_to_npu.disable()
    after = torch._C._dispatch_dump("aten::empty.memory_format"), torch._C._dispatch_dump("aten::to.device")
    assert before == after
    try:
        torch.empty_strided((1,), (1,), device="cuda")
    except (AssertionError, RuntimeError) as error:
        print(error)
    assert torch.zeros(1, device="npu").add(1).item() == 1
"""


def test_a_cuda_of_pytorchs_own_is_given_back() -> None:
    """The other modules of this room run all their tests with CUDA's key taken."""
    conftest = str(Path(__file__).with_name("conftest.py"))
    assert NO_CUDA in run(TAKEN.format(conftest=conftest))


@pytest.mark.parametrize("call", ["torch.manual_seed(7)", "torch.cuda.manual_seed(7)", "torch.cuda.manual_seed_all(7)"])
def test_a_seed_does_not_initialize_the_device(call: str) -> None:
    """As on CUDA, where it is queued: a data loader may still fork, and its worker use the device."""
    out = run(
        "import os, torch, torch_npu\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        f"{call}\n"
        "print(torch.cuda.is_initialized(), flush=True)\n"
        "child = os.fork()\n"
        "values = torch.rand(3, device='cuda').cpu()\n"
        "again = torch.rand(3, device='cuda', generator=torch.Generator('cuda').manual_seed(7)).cpu()\n"
        "if child == 0:\n"
        "    os._exit(not torch.equal(values, again))\n"
        "print(torch.equal(values, again), os.waitpid(child, 0)[1])\n"
    )
    assert out.split() == ["False", "True", "0"], out


@pytest.mark.parametrize(("before", "inside", "right"), [
    ({"CUDA_VISIBLE_DEVICES": "1"}, "", "ASCEND_RT_VISIBLE_DEVICES=1 does"),
    ({"CUDA_VISIBLE_DEVICES": "1,0"}, "", "ASCEND_RT_VISIBLE_DEVICES=0,1 does"),
    ({"CUDA_VISIBLE_DEVICES": ""}, "", "ASCEND_RT_VISIBLE_DEVICES does"),
    ({}, "os.environ['CUDA_VISIBLE_DEVICES'] = '2'", "ASCEND_RT_VISIBLE_DEVICES=2 does"),
    ({"CUDA_VISIBLE_DEVICES": "1", "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, "", None),
    ({}, "", None),
], ids=["one", "two", "none", "set later", "both", "unset"])  # fmt: skip
def test_cuda_visible_devices_is_spoken_of_once(before, inside, right) -> None:
    program = f"""
        import os, torch
        from torch_npu.contrib import transfer_to_npu
        {inside}
        torch.cuda.is_available(), torch.cuda.init()
        transfer_to_npu.disable(), transfer_to_npu.enable()
        print(torch.cuda.device_count())
        """
    unset = {"CUDA_VISIBLE_DEVICES": None, "ASCEND_RT_VISIBLE_DEVICES": None}
    done = tools.run(program, imports=True, **(unset | before))
    assert done.stdout == "8\n"
    assert done.stderr.count("chooses no NPU") == (right is not None), done.stderr
    assert right is None or f" chooses no NPU; {right}, set before the program uses a device (" in done.stderr


def test_cuda_visible_devices_is_nobodys_without_the_switch() -> None:
    done = tools.run("import torch, torch_npu; torch.npu.init()", imports=True, CUDA_VISIBLE_DEVICES="1")
    assert "CUDA_VISIBLE_DEVICES" not in done.stderr
