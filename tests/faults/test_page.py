"""docs/faults.md: its examples happen in a usual small network, and its recipe goes on with the same losses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests import forked
from tests.core.tools import run
from tests.faults import table

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
RECIPE = re.search(r"^```python\n(.*?)^```", PAGE, re.M | re.S)[1]
SEEDED = "import os, torch; os.chdir(os.environ['HERE']); torch.manual_seed(3)\n" + RECIPE
EXAMPLES = re.findall(r"^[^#\n]*ANYCEND_FAULT=((?!link)[\w:+]+)", PAGE[: PAGE.index("Which functions")], re.M)


WAITS = ("torch.npu.current_stream().synchronize()", "y.cpu()", "y[0].item()", "torch.nonzero(y)")


def losses(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\d) ([\d.e-]+)$", text, re.M))


@pytest.mark.parametrize("fault", [one for one in EXAMPLES if "Hccl" not in one and "oom" not in one])
def test_the_recipe_survives_the_examples_with_the_same_losses(tmp_path, fault):
    plain = losses(run(SEEDED, HERE=str(tmp_path)).stdout)
    out = run(SEEDED, HERE=str(tmp_path), ANYCEND_FAULT=fault)
    assert "did not happen" not in out.stderr and "as ANYCEND_FAULT asks" in out.stdout
    assert losses(out.stdout) == plain and len(plain) == 10


def test_the_table_names_each_function_that_the_plugin_calls():
    shown = re.findall(r"`(\w+)`", PAGE[PAGE.index("| what becomes of it |") :])
    assert sorted(shown) == table.functions()
    assert f"what becomes of each of the {len(shown)}:" in PAGE


def test_the_examples_are_of_each_kind_and_memory_is_out_in_a_small_program():
    assert [one.split(":")[1] for one in EXAMPLES] == ["oom", "kernel", "hang", "lost"]
    program = "import torch\ntry:\n    torch.ones(2).npu()\nexcept torch.OutOfMemoryError:\n    print('out')"
    assert run(program, ANYCEND_FAULT=EXAMPLES[0]).stdout == "out\n"


def test_a_state_kept_on_the_device_is_unsafe_and_the_page_says_where_it_is_made_safe():
    program = """
import torch
from torch_npu.npu._recovery import update_npu_tensor_to_safe
kept = {k: v.clone() for k, v in torch.nn.Linear(2, 2).npu().state_dict().items()}
torch.npu.restart_device(0, rebuild_all_resources=True)
try:
    kept["bias"].cpu()
except RuntimeError as error:
    print("There is unsafe data in the input tensor" in str(error))
update_npu_tensor_to_safe(kept["bias"])
print(kept["bias"].cpu().shape)
"""
    assert run(program).stdout == "True\ntorch.Size([2])\n"
    assert "torch_npu.npu._recovery.update_npu_tensor_to_safe" in PAGE


@pytest.mark.parametrize(
    ("wait", "limit"),
    [("torch.npu.synchronize()", "ACL_DEVICE_SYNC_TIMEOUT=1"),
     *((wait, "ACL_STREAM_TIMEOUT=1000") for wait in WAITS)],
)  # fmt: skip
def test_a_limit_ends_its_wait(wait, limit):
    program = f"""
import torch
x = torch.ones(3, device="npu")
y = x + x
try:
    {wait}
except RuntimeError as error:
    print("507046" in str(error), "aclnnAdd still runs" in str(error), flush=True)
"""
    name, value = limit.split("=")
    assert f"`{name}=" in PAGE
    # And the process ends by itself, which waits for its devices.
    assert run(program, ANYCEND_FAULT="aclnnAdd:hang", **{name: value}).stdout == "True True\n"


def test_a_wait_of_another_stream_names_the_operator_that_hangs():
    program = """
import torch
x, s = torch.ones(3, device="npu"), torch.npu.Stream()
y = x + x
s.wait_stream(torch.npu.current_stream())
try:
    s.synchronize()
except RuntimeError as error:
    print(str(error).rpartition(": ")[2])
"""
    said = run(program, ANYCEND_FAULT="aclnnAdd:hang", ACL_STREAM_TIMEOUT="1000").stdout
    assert said == "aclnnAdd still runs on a stream that it waits for\n"


def test_the_limit_of_streams_ends_the_plugins_own_waits_for_a_device_too():
    program = """
import os, torch
x = torch.ones(3, device="npu")
y = x + x
for wait in (torch.npu.empty_cache, lambda: torch.empty(1 << 50, dtype=torch.uint8, device="npu")):
    try:
        wait()
    except RuntimeError as error:
        print("507046" in str(error), "aclnnAdd still runs" in str(error), flush=True)
os._exit(0)
"""
    for variables in ({}, {"ACL_DEVICE_SYNC_TIMEOUT": "0"}):
        out = run(program, ANYCEND_FAULT="aclnnAdd:hang", ACL_STREAM_TIMEOUT="1000", **variables)
        assert out.stdout == "True True\n" * 2


def test_memory_without_a_cache_stays_where_what_runs_may_use_it():
    program = """
import os, torch
x = torch.ones(3, device="npu")
y = x + x
del y
print("goes on", flush=True)
os._exit(0)
"""
    variables = {"ACL_STREAM_TIMEOUT": "1000", "PYTORCH_NO_NPU_MEMORY_CACHING": "1"}
    out = run(program, ANYCEND_FAULT="aclnnAdd:hang", **variables)
    assert out.stdout == "goes on\n" and "aclnnAdd still runs" in out.stderr


@pytest.mark.parametrize("told", [False, True])
def test_a_failure_that_nobody_waited_for_is_named_at_the_end(told):
    program = 'import torch\nx = torch.ones(3, device="npu")\ny = x[torch.tensor([9], device="npu")]\nprint("end")'
    if told:
        program += "\ntry:\n    torch.npu.synchronize()\nexcept RuntimeError as error:\n    print(error)"
    out = run(program)
    assert out.stdout.startswith("end\n") and ("aclnnIndex" in out.stdout) == told
    lines = re.findall(r"^npu:.*", out.stderr, re.M)
    if told:
        assert lines == []
    else:
        (line,) = lines
        assert line.startswith(
            "npu:0: an operator failed, and what was queued behind it was dropped. No error told the program: "
        )
        assert "aclnnIndex" in line


@pytest.mark.parametrize("told", ["y.sum().item()", "z = x + 1", "thread(torch.npu.synchronize)"])
def test_a_failure_that_another_calls_error_told_of_is_named_as_told(told):
    program = f"""
import threading, time, torch
def thread(f):
    t = threading.Thread(target=lambda: attempt(f)); t.start(); t.join()
def attempt(f):
    try: f()
    except RuntimeError as error: print("aclnnMm failed" in str(error))
x = torch.ones(8, 8, device="npu")
y = x @ x
time.sleep(3)  # until it has failed; not asked, which would tell
{told if told.startswith("thread") else f"attempt(lambda: exec({told!r}))"}
"""
    out = run(program, ANYCEND_FAULT="aclnnMm:kernel:1")
    (line,) = re.findall(r"^npu:.*", out.stderr, re.M)
    said = (
        "npu:0: an operator failed, and what was queued behind it was dropped. The program got this error, or one in "
    )
    assert out.stdout == "True\n" and line.startswith(f"{said}its words: ")


def test_a_second_failure_in_the_words_of_the_first_is_named_too():
    program = """
import torch
x = torch.ones(8, 8, device="npu")
y = x @ x
try: torch.npu.synchronize()
except RuntimeError: print("told")
y = x @ x
"""
    out = run(program, ANYCEND_FAULT="aclnnMm:kernel:1+")
    (line,) = re.findall(r"^npu:.*", out.stderr, re.M)
    assert out.stdout == "told\n" and "aclnnMm failed" in line


@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_names_its_failure_too(tmp_path, way):
    (tmp_path / "main.py").write_text(f"""
import multiprocessing, torch
def child():
    x = torch.ones(8, 8, device="npu")
    x @ x
if __name__ == "__main__":
    p = multiprocessing.get_context({way!r}).Process(target=child)
    p.start(); p.join()
    print(p.exitcode)
""")
    environment = {**os.environ, "ANYCEND_FAULT": "aclnnMm:kernel:1"}
    out = forked.run(["main.py"], cwd=tmp_path, env=environment)
    lines = re.findall(
        r"^npu:0: an operator failed, and what was queued behind it was dropped. No error told the program: .*aclnnMm",
        out.stderr,
        re.M,
    )
    assert out.stdout == "0\n" and len(lines) == 1, out.stderr


@pytest.mark.parametrize("limit", ["ACL_STREAM_TIMEOUT=1000", "ACL_DEVICE_SYNC_TIMEOUT=1"])
def test_a_process_that_nothing_waited_in_ends_at_the_limit_and_says_what_it_dropped(limit):
    program = 'import torch\nx = torch.ones(3, device="npu")\ny = x + x\nprint("end")'
    out = run(program, ANYCEND_FAULT="aclnnAdd:hang", **dict([limit.split("=")]))
    assert out.stdout == "end\n"
    (line,) = re.findall(r"^npu:.*", out.stderr, re.M)
    assert line.startswith("npu:0: the process ends before the device's work, which is dropped: ")
    assert line.endswith("aclnnAdd still runs")
