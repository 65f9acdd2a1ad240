"""From the first use to the exit, and in forked children: csrc/core/lifecycle.cpp, options.cpp."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.core.tools import BUSY, output, run

FORKED = """
import os, torch
print(torch.npu.device_count(), flush=True)
{prepare}
pid = os.fork()
if pid == 0:
    try:
        {use}
    except RuntimeError as error:
        print("child:", error, flush=True)
    os._exit(0)
print("status", os.waitpid(pid, 0)[1])
"""
REFUSED = (
    "child: Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
    'start method: torch.multiprocessing.get_context("spawn"), or multiprocessing_context="spawn" of a DataLoader'
)


def test_importing_and_counting_initialize_nothing():
    text = output(
        "import torch; print(torch.npu.device_count() > 0, torch.npu.is_available(), torch.npu.is_initialized())"
    )
    assert text == "True True False"


def test_init_initializes_and_may_be_repeated():
    assert output("import torch; torch.npu.init(); torch.npu.init(); print(torch.npu.is_initialized())") == "True"


@pytest.mark.parametrize(
    "use",
    [
        "torch.UntypedStorage(8, device='npu')",
        "torch.npu.synchronize()",
        "torch.npu.set_device(0)",
        "torch.npu.current_stream().synchronize()",
        "torch.empty(8, pin_memory=True)",
        "torch.npu.Event().record()",
    ],
)
def test_a_forked_child_that_touches_the_device_is_refused(use):
    text = output(FORKED.format(prepare="x = torch.UntypedStorage(8, device='npu')", use=use))
    assert text.splitlines()[1:] == [REFUSED, "status 0"]


def test_a_forked_child_may_count_devices_and_seed():
    use = "torch.manual_seed(1); print('child', torch.npu.device_count(), torch.npu._is_in_bad_fork(), flush=True)"
    text = output(FORKED.format(prepare="torch.npu.init()", use=use))
    assert text.splitlines()[1:] == ["child 8 True", "status 0"]


def test_a_forked_child_lets_go_of_what_it_inherited():
    prepare = "x, p = torch.UntypedStorage(8, device='npu'), torch.empty(8, pin_memory=True)"
    prepare += "; e = torch.npu.Event(); e.record()"
    text = output(FORKED.format(prepare=prepare, use="del x, p, e; print('child done', flush=True)"))
    assert text.splitlines()[1:] == ["child done", "status 0"]


def test_a_child_forked_before_the_first_use_has_the_device():
    text = output(FORKED.format(prepare="", use="print(torch.UntypedStorage(8, device='npu').device, flush=True)"))
    assert text.splitlines()[1:] == ["npu:0", "status 0"]


def test_fork_while_a_stream_is_busy():
    prepare = BUSY + "torch.npu.init(); busy(torch.npu.current_stream(), 0.5)"
    text = output(FORKED.format(prepare=prepare, use="torch.npu.synchronize()"))
    assert text.splitlines()[1:] == [REFUSED, "status 0"]


def test_exit_waits_for_queued_work():
    began = time.monotonic()
    done = run(
        BUSY
        + """
import atexit, torch, torch_npu
torch.npu.init()
busy(torch.npu.current_stream(), 1.5)
atexit.register(lambda: None)
print("still runs", not torch.npu.current_stream().query())
"""
    )
    assert done.stdout.strip() == "still runs True"
    assert done.returncode == 0 and time.monotonic() - began > 1.5


def test_exit_right_after_a_backward_pass():
    program = "import torch\nx = torch.ones(3, device='npu', requires_grad=True)\n(x * 2).sum().backward()"
    for _ in range(8):  # before the exit waited for the engine's threads, one in four ended with SIGABRT
        assert run(program).returncode == 0


def test_exit_with_a_mode_on():
    program = """
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        class Through(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        torch.ones(3).npu()
        Through().__enter__()
    """
    for _ in range(8):  # the pass that waits for the engine's threads kept the mode: one in three ended with SIGABRT
        assert run(program).returncode == 0


def test_os_exit_does_not_wait():
    done = run(
        BUSY + "import os, torch\ntorch.npu.init()\nbusy(torch.npu.current_stream(), 60)\nos._exit(3)",
        check=False,
        timeout=30,
    )
    assert done.returncode == 3


def test_an_exception_ends_the_process_as_always():
    done = run("import torch\nx = torch.UntypedStorage(8, device='npu')\nraise KeyError('mine')", check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("KeyError: 'mine'")


def test_objects_that_outlive_the_device_are_dropped_quietly():
    done = run(
        """
        import builtins, torch
        s = torch.npu.Stream(); e = torch.npu.Event(); e.record(s)
        builtins.kept = [torch.UntypedStorage(8, device="npu"), torch.empty(8, pin_memory=True), s, e]
        """
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "2", "0 or 1"),
        ("STREAMS_PER_DEVICE", "9", "8 or 32"),
        ("ACL_STREAM_TIMEOUT", "soon", "milliseconds; 0 and -1 wait for ever"),
        ("ACL_DEVICE_SYNC_TIMEOUT", "-2", "seconds up to 2147483; 0 and -1 wait for ever"),
        ("PYTORCH_NO_NPU_MEMORY_CACHING", "yes", "0 or 1"),
    ],
)
def test_a_wrong_variable_is_one_error_that_names_it_and_the_process_goes_on(variable, value, allowed):
    text = output(
        """
        import torch
        try:
            torch.UntypedStorage(8, device="npu")
        except ValueError as error:
            print(error)
        print(torch.ones(2).tolist(), torch.npu.is_available())
        """,
        **{variable: value},
    )
    assert f"{variable}={value}" in text and allowed in text
    assert text.endswith("[1.0, 1.0] True")


# Variables that are checked and have no effect: what each takes, and what it does not.
WITHOUT_EFFECT = [
    ("TASK_QUEUE_ENABLE", "0 1 2", "9 on -1", "0, 1 or 2"),
    ("PER_STREAM_QUEUE", "0 1", "2 yes", "0 or 1"),
    ("COMBINED_ENABLE", "0 1", "2 yes", "0 or 1"),
    ("MULTI_STREAM_MEMORY_REUSE", "0 1 2 3", "7 -1 x", "0, 1, 2 or 3"),
    ("HOST_CACHE_CAPACITY", "0 20", "-1 1.5 many", "a whole number from 0 on"),
    ("ACLNN_CACHE_LIMIT", "0 100000", "-1 99999999999999999999", "a whole number from 0 on"),
    ("ACL_OP_INIT_MODE", "0 1 2", "3", "0, 1 or 2"),
    ("ACL_OP_COMPILER_CACHE_MODE", "enable disable force", "on 1", "enable, disable or force"),
    ("TORCH_NPU_LAZY_FUSION", "True False true false 1 0", "yes 2 TRUE", "True, False, true, false, 1 or 0"),
    ("INF_NAN_MODE_ENABLE", "0 1", "2", "0 or 1"),
    ("INF_NAN_MODE_FORCE_DISABLE", "0 1", "2", "0 or 1"),
    ("NPU_ASD_ENABLE", "0 1 2 3", "4", "0, 1, 2 or 3"),
    ("NPU_ASD_CONFIG", "enable:true,cooldown:5", "enabled:true enable enable:", "with the keys enable,"),
]


def test_variables_without_an_effect_are_checked_one_by_one():
    """All values in one process: the options are read again after an error, which STREAMS_PER_DEVICE always is here."""
    texts = output(
        f"""
        import json, os, torch
        found = []
        def attempt():
            try:
                torch.UntypedStorage(8, device="npu")
            except ValueError as error:
                return str(error)
        for name, right, wrong, _ in {WITHOUT_EFFECT!r}:
            os.environ["STREAMS_PER_DEVICE"] = "9"  # read behind them
            for value in [*right.split(), *wrong.split()]:
                os.environ[name] = value
                found.append([name, value, attempt()])
            del os.environ[name], os.environ["STREAMS_PER_DEVICE"]
        print(json.dumps(found + [["", "", attempt()]]))
        """
    )
    *found, after = json.loads(texts)
    assert after[2] is None and len(found) == sum(len(f"{r} {w}".split()) for _, r, w, _ in WITHOUT_EFFECT)
    expected = {(name, value): says for name, _, wrong, says in WITHOUT_EFFECT for value in wrong.split()}
    for name, value, error in found:
        if (name, value) in expected:
            assert f"{name}={value} is not valid" in error and expected[name, value] in error, error
        else:
            assert "STREAMS_PER_DEVICE=9" in error, error
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert [name for name, *_ in WITHOUT_EFFECT if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("content", "error", "why"),
    [
        (None, "AcceleratorError", "the file cannot be read"),
        ("no json", "AcceleratorError", "no JSON object"),
        ('{"dump": {"dump_path": "/tmp"}}', "NotImplementedError", '"dump" is not supported'),
    ],
    ids=["missing", "no json", "refused section"],
)
def test_a_wrong_configuration_of_cann_is_an_error_that_names_the_file(tmp_path, content, error, why):
    file = tmp_path / "acl.json"
    if content is not None:
        file.write_text(content)
    text = output(
        """
        import torch
        try:
            print(torch.ones(2).npu().tolist())
        except RuntimeError as error:
            print(type(error).__name__, error)
        print(torch.ones(2).tolist())
        """,
        TORCH_ACL_INIT_CONFIG_PATH=str(file),
    )
    assert text.startswith(f"{error} ") and f"{file}: " in text and why in text, text
    assert text.endswith("[1.0, 1.0]")


@pytest.mark.parametrize(("value", "waits", "seconds"), [("0", "False", 20), ("1", "True", 0.4)])
def test_launch_blocking_makes_an_operator_wait(value, waits, seconds):
    text = output(
        BUSY
        + f"""
import os, torch
x = torch.ones(4).npu()
x + x
torch.npu.synchronize()
busy(torch.npu.current_stream(), {seconds})
x + x
print(torch.npu.current_stream().query(), flush=True)
os._exit(0)
""",
        ASCEND_LAUNCH_BLOCKING=value,
    )
    assert text == waits


EXITS = """
import ctypes, torch
x = torch.ones(64, 64, device="npu")
def work():
    x.softmax(-1), x.sum(), torch.nn.functional.layer_norm(x, [64]), x.cumsum(0)
work()
torch.npu.synchronize()
for _ in range(500):
    work()
print("queued", flush=True)
ctypes.CDLL(None).exit(0)
"""


def test_what_is_queued_at_an_exit_without_the_interpreters_end_is_run():
    """By threads of the software NPU: the exiting one has no thread-local objects any more. Memory that is freed is
    overwritten here, so that its use is a crash.
    """
    for _ in range(4):  # whether the exiting thread finds something to run is a matter of time
        done = run(EXITS, fresh=True, GLIBC_TUNABLES="glibc.malloc.perturb=85")
        assert (done.returncode, done.stdout) == (0, "queued\n")
