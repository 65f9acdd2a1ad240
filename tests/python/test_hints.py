"""Remedies beside errors and settings of programs for GPUs (torch_npu/_hints.py)."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch

from tests.core import tools
from torch_npu import _hints

run = functools.partial(tools.run, imports=True, check=False)
TRANSFER = "`from torch_npu.contrib import transfer_to_npu`"


NO_DRIVER = "Found no NVIDIA driver on your system"
NO_GPU = f"npu: this machine has no GPU; the device here is npu. {TRANSFER}"
HCCL = f"npu: the backend of npu tensors is hccl. {TRANSFER}"
NO_CUDA = f"npu: this PyTorch has no CUDA; the device here is npu. {TRANSFER}"
NOT_COMPILED, BUILT = "Torch not compiled with CUDA enabled", torch.backends.cuda.is_built()


@pytest.mark.parametrize("program, says, remedy", [
    ("import torch; torch.ones(2).cuda()", NO_DRIVER if BUILT else f"AssertionError: {NOT_COMPILED}",
     NO_GPU if BUILT else NO_CUDA),
    ("import torch, torch.distributed as dist; "
     "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)",
     "no GPUs found" if BUILT else "Distributed package doesn't have NCCL built in", HCCL),
    ("import torch, torch.distributed as dist; "
     "dist.init_process_group('hccl', store=dist.HashStore(), rank=0, world_size=1); dist.all_reduce(torch.ones(2))",
     "No backend type associated with device type cpu",
     "npu: the group carries npu tensors only: move the tensor with .npu(), or make the group with "
     'init_process_group("cpu:gloo,npu:hccl")'),
    ("import torch; torch.autograd.profiler.emit_nvtx().__enter__()", NO_DRIVER if BUILT else NOT_COMPILED,
     "TORCH_TRANSFER_TO_NPU=1"),
    ("import io, torch; file = io.BytesIO(); torch.save(torch.ones(2), file); file.seek(0); "
     "torch.load(file, map_location='cuda:0')", "Attempting to deserialize object on a CUDA device",
     'npu: torch.load(file, map_location="npu") puts what was saved on cuda on the npu. ' + TRANSFER),
    ("import torch; torch.Generator('cuda')", "CUDA driver version" if BUILT else "Cannot get CUDA generator",
     NO_GPU if BUILT else f'npu: it is torch.Generator("npu") here. {TRANSFER}'),
    ("import torch\ntry: torch.ones(2).cuda()\nexcept Exception as e: raise RuntimeError('no start') from e",
     "RuntimeError: no start", NO_GPU if BUILT else NO_CUDA),
], ids=["cuda", "nccl", "cpu tensor", "nvtx", "load", "generator", "cause"])  # fmt: skip
def test_an_error_that_ends_a_program_has_its_remedy(program, says, remedy):
    done = run(program)
    assert done.returncode == 1
    assert says in done.stderr, done.stderr
    assert done.stderr.count(remedy) == 1 and done.stderr.index(says) < done.stderr.index(remedy), done.stderr


def test_a_pytorch_with_cuda_has_other_words():
    old_driver = "CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    for words in (f"{NO_DRIVER}. Please check", old_driver):
        assert f"npu: {_hints.remedy(words)}".startswith(NO_GPU)
    said = "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
    assert f"npu: {_hints.remedy(said)}".startswith(HCCL)


UNKNOWN = (
    "npu: nobody reads ANYCEND_CHEK (did you mean ANYCEND_CHECK?), ANYCEND_QQ; anycend docs env lists the variables"
)


@pytest.mark.parametrize(
    ("set_to", "said"), [({"ANYCEND_CHEK": "race", "ANYCEND_QQ": "1"}, 1), ({"ANYCEND_MEMORY": "1G"}, 0), ({}, 0)]
)
def test_variables_of_ours_that_nobody_reads_are_one_warning(set_to, said):
    done = run("import torch", **set_to)
    assert done.returncode == 0 and done.stderr.count(UNKNOWN) == said, done.stderr
    assert ("nobody reads" in done.stderr) == bool(said)


LEVEL = "npu: ASCEND_GLOBAL_LOG_LEVEL={} is no level, and 3 is used; set {}"
NUMBERS = "a number: 0 debug, 1 info, 2 warning, 3 error, 4 nothing"
SATURATED = "npu: {} has no effect: results keep infinities and NaN, which it would make the largest number and zero"
SILENT = "npu: {} has no effect: errors of the hardware that nobody reports are not looked for; unset it"


@pytest.mark.parametrize(("variable", "right", "wrong"), [
    ("ASCEND_GLOBAL_LOG_LEVEL", " 0 1 4", [("INFO", LEVEL.format("INFO", 1)), ("7", LEVEL.format("7", NUMBERS))]),
    ("INF_NAN_MODE_ENABLE", " 1", [("0", SATURATED)]),
    ("INF_NAN_MODE_FORCE_DISABLE", " 0", [("1", SATURATED)]),
    ("NPU_ASD_ENABLE", " 0", [("1", SILENT), ("3", SILENT)]),
    ("NPU_ASD_CONFIG", " enable:false,cooldown:5", [("cooldown:5,enable:true", SILENT)]),
])  # fmt: skip
def test_a_value_that_would_be_obeyed_elsewhere_is_one_warning(monkeypatch, variable, right, wrong):
    for value, says in [*((value, "") for value in right.split(" ")), *wrong]:
        monkeypatch.setenv(variable, value)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            _hints.warn_of_variables()
        assert len(said) == bool(says)
        assert all(says.format(f"{variable}={value}") in str(one.message) for one in said)


def test_that_warning_comes_once_with_the_import():
    done = run("import torch, torch_npu; torch.ones(1, device='npu')", ASCEND_GLOBAL_LOG_LEVEL="INFO", check=True)
    assert done.stderr.count(LEVEL.format("INFO", 1)) == done.stderr.count("npu: ") == 1, done.stderr


def test_other_errors_are_as_they_were():
    program = "import sys; sys.excepthook = lambda *error: print('mine', error[1]); import torch; 1 / 0"
    done = tools.run(program, check=False, fresh=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "mine division by zero\n", "")


def test_the_remedy_for_cpu_tensors_is_one():
    done = run(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("cpu:gloo,npu:hccl", store=dist.HashStore(), rank=0, world_size=1)
        t = torch.full((2,), 3.0)
        dist.all_reduce(t)
        print(t.tolist())
        """,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[3.0, 3.0]"  # some of PyTorch's builds print what Gloo connects to


def test_devices_that_an_order_hides():
    program = "import torch; print(torch.npu.device_count())"
    done = run(program, ASCEND_RT_VISIBLE_DEVICES="1,0", check=True)
    assert done.stdout == "1\n"
    assert (
        "npu: ASCEND_RT_VISIBLE_DEVICES=1,0: ids must ascend, and reading stops before 0, so that the process sees 1 "
        "of 2; set 0,1"
    ) in done.stderr
    done = run(program, ASCEND_RT_VISIBLE_DEVICES="0,1", check=True)
    assert (done.stdout, done.stderr) == ("2\n", "")
