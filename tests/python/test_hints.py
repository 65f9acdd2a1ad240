"""Remedies beside errors and settings of programs for GPUs (torch_npu/_hints.py)."""

from __future__ import annotations

import functools
import sys
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


def test_a_plugin_that_refuses_says_why_last():
    done = tools.run("import torch", check=False, fresh=True, TORCH_TRANSFER_TO_NPU="true")
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last) == (1, "npu: TORCH_TRANSFER_TO_NPU=true is neither 0 nor 1"), done.stderr


def test_a_pytorch_with_cuda_has_other_words():
    old_driver = "CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    for words in (f"{NO_DRIVER}. Please check", old_driver):
        assert f"npu: {_hints.remedy(words)}".startswith(NO_GPU)
    said = "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
    assert f"npu: {_hints.remedy(said)}".startswith(HCCL)


NUMBER = "npu: a device's number follows a colon: "
NAME = 'npu: a device here is "npu", or "npu:0" with its number'


@pytest.mark.parametrize(("call", "line"), [
    ("torch.cuda.set_device(0)", NO_CUDA), ("torch.cuda.CUDAGraph()", NO_CUDA), ("torch.cuda.Event()", NO_CUDA),
    ("torch.cuda.Stream()", NO_CUDA), ("torch.cuda.nvtx.mark('a')", NO_CUDA),
    ("torch.zeros(2, device='nup')", NAME), ("torch.zeros(2, device='NPU:0')", NAME),
    ("torch.device('gpu')", NAME), ("torch.device('cup')", None), ("torch.device('xpu:a')", None),
    ("torch.device('npu0')", f'{NUMBER}"npu:0"'), ("torch.device('npu12')", f'{NUMBER}"npu:12"'),
    ("torch.device('npu:x')", f'{NUMBER}"npu:0"'),
    ("torch.xpu.Event()", None),
    ("torch.distributed.init_process_group('hcll', store=torch.distributed.HashStore(), rank=0, world_size=1)",
     "npu: the backend of npu tensors is hccl"),
    ("torch.distributed.init_process_group('glo', store=torch.distributed.HashStore(), rank=0, world_size=1)", None),
])  # fmt: skip
def test_names_that_are_spelled_nearly_so(monkeypatch, capsys, call, line):
    if BUILT and line == NO_CUDA:
        pytest.skip("this PyTorch has CUDA, which says something else")
    monkeypatch.setattr(sys, "excepthook", lambda *error: None)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    _hints.install()
    with pytest.raises(Exception) as error:  # noqa: B017  (of several types)
        eval(call, {"torch": torch})
    sys.excepthook(error.type, error.value, error.tb)
    said = capsys.readouterr().err
    assert said.startswith(line) if line else said == "", said


def test_mixed_precision_that_pytorch_leaves_out_has_its_remedy():
    done = run(
        """
        import torch
        for _ in range(2):
            torch.autocast("cuda")
            torch.amp.GradScaler("cuda")
        torch.autocast("cuda", enabled=False), torch.amp.GradScaler("cuda", enabled=False), torch.autocast("npu")
        """,
        check=True,
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("npu: ")]
    assert len(told) == 2, done.stderr
    for line, right in zip(told, ("torch.autocast", "torch.amp.GradScaler"), strict=True):
        now = "they are computed in their own types now"
        assert line.startswith(f'npu: of npu tensors it is {right}("npu"); {now}. {TRANSFER}')


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


@pytest.mark.parametrize(("visible", "says"), [
    ("1,0", "ids must ascend, and reading stops before 0, so that the process sees 1 of 2; set 0,1"),
    ("npu:1", "'npu:1' is no number, and reading stops there, so that the process sees 0 of 1; set 1"),
    ("9", "there is no device 9, of 8, and reading stops before it, so that the process sees 0 of 1; "
          "give ids from 0 on, such as 0,1, or unset it"),
    ("0,9", "there is no device 9, of 8, and reading stops before it, so that the process sees 1 of 2; set 0"),
    ("0;1", "'0;1' is no number, and reading stops there, so that the process sees 1 of 1; set 0,1"),
    ("0, 1", "' 1' is no number, and reading stops there, so that the process sees 1 of 2; set 0,1"),
    ("all", "'all' is no number, and reading stops there, so that the process sees 0 of 1; "
            "give ids from 0 on, such as 0,1, or unset it"),
    ("0,1", None), ("7", None), ("0,", None), ("", None),
])  # fmt: skip
def test_visible_devices_that_hide_some(monkeypatch, visible, says):
    for name in ("ANYCEND_CANN", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ANYCEND_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _hints.warn_of_hidden_devices()
    assert [str(one.message) for one in told] == ([f"npu: ASCEND_RT_VISIBLE_DEVICES={visible}: {says}"] if says else [])


def test_the_number_of_devices_is_the_software_npus(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "9")
    for variables, told in (({"ANYCEND_DEVICES": "16"}, 0), ({"ANYCEND_DEVICES": "4"}, 1),
                            ({"ANYCEND_CANN": str(tmp_path)}, 0), ({"ASCEND_HOME_PATH": str(tmp_path)}, 0),
                            ({"ANYCEND_CANN": "soft", "ASCEND_HOME_PATH": str(tmp_path)}, 1)):  # fmt: skip
        with monkeypatch.context() as here, warnings.catch_warnings(record=True) as said:
            for name in ("ANYCEND_CANN", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ANYCEND_DEVICES"):
                here.delenv(name, raising=False)
            for name, value in variables.items():
                here.setenv(name, value)
            warnings.simplefilter("always")
            _hints.warn_of_hidden_devices()
        assert len(said) == told, variables


@pytest.mark.parametrize(("visible", "sees"), [("1,0", 1), ("npu:1", 0), ("9", 0), ("0;1", 1), ("0,1", 2), ("0,", 1)])
def test_what_the_warning_says_is_what_is_seen(visible, sees):
    done = run("import torch; print(torch.npu.device_count())", ASCEND_RT_VISIBLE_DEVICES=visible, check=True)
    assert done.stdout == f"{sees}\n"
    warned = f"npu: ASCEND_RT_VISIBLE_DEVICES={visible}: "
    assert (f"so that the process sees {sees} of " in done.stderr) == (visible not in ("0,1", "0,"))
    assert done.stderr.count(warned) == (visible not in ("0,1", "0,"))


def test_an_error_for_want_of_devices_has_the_value():
    done = run("import torch; torch.zeros(1, device='npu')", ASCEND_RT_VISIBLE_DEVICES="9")
    line = "npu: ASCEND_RT_VISIBLE_DEVICES=9 shows none; give ids from 0 on, such as 0,1, or unset it"
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == line, done.stderr
