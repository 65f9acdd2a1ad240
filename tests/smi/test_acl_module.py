"""The Python module `acl` of the root, as ray, nputop and others call it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hccl.ranks import library_folder
from tests.smi.patterns import reads

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def ran(machine, program: str) -> str:
    """What the program prints after set_env.sh; it begins in a folder that has nothing to import."""
    script = f'. "{library_folder().parent}/set_env.sh" && exec "$1" -c "$2"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, program],
        env=machine.env,
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@reads("ray", "`import acl`", "get_device_count, get_soc_name, before init")
def test_ray_counts_and_names_the_devices_before_anything_is_initialized(machine):
    m = machine("Ascend910_9392", devices=3)
    out = ran(m, "import acl; print(acl.rt.get_device_count()[0], acl.get_soc_name())")
    assert out.split() == ["3", "Ascend910_9392"]


def test_every_function_answers(machine):
    m = machine(devices=2)
    m.user(1, 256)
    program = """
import acl, json
found = {"init": [acl.init(), acl.init("")], "none": acl.rt.get_device()[1]}
found["set"] = [acl.rt.set_device(1), acl.rt.get_device(), acl.rt.set_device(9) != 0]
free, total, status = acl.rt.get_mem_info(1)
found["memory"] = [total - free >> 20, total >> 20, status]
found["rate"] = acl.rt.get_device_utilization_rate(1)
found["mode"] = acl.rt.get_run_mode()
found["beyond"] = [acl.rt.set_device(n) for n in (2**31, 2**32, -(2**70))] + list(acl.rt.get_device())
for call, wrong in ((acl.init, 5), (acl.rt.set_device, "0"), (acl.rt.set_device, None), (acl.rt.set_device, 1.0)):
    try:
        found["wrong"] = call(wrong)
    except TypeError:
        pass
found["version"] = acl.rt.get_version()
found["end"] = [acl.rt.reset_device(1), acl.finalize()]
print(json.dumps(found))
"""
    found = json.loads(ran(m, program))
    assert found["init"] == [0, 100002] and found["none"] != 0
    assert found["set"] == [0, [1, 0], True]
    assert found["memory"] == [256, 1024, 0]
    rates = {"cube", "vector", "aicpu", "memory"}
    assert set(found["rate"][0]) == {f"{name}_utilization" for name in rates} | {"utilization_extend"}
    assert found["rate"][1] == 0 and found["rate"][0]["cube_utilization"] == 0
    assert found["mode"] == [1, 0] and found["version"][0] >= 1 and found["version"][3] == 0
    assert found["beyond"] == [107001, 107001, 107001, 1, 0]
    assert found["end"] == [0, 0] and "wrong" not in found


@pytest.mark.parametrize(
    ("name", "has"),
    [("acl.mdl", "finalize, get_soc_name, init, rt"), ("acl.rt.malloc", "get_device, get_device_count")],
)
def test_another_name_is_an_error_that_lists_what_there_is(machine, name, has):
    program = f"import acl\ntry:\n    {name}\nexcept AttributeError as error:\n    print(error)"
    module, _, missing = name.rpartition(".")
    out = ran(machine(), program)
    assert out.startswith(f"module '{module}' has no attribute '{missing}': the software NPU's has ") and has in out


def test_the_page_names_what_there_is_and_its_program_runs(machine):
    section = PAGE.read_text(encoding="utf-8").partition("## The Python module acl")[2]
    assert ran(machine(devices=2), re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]).split() == [
        "Ascend910B3",
        "2",
    ]
    program = "import acl; print(*acl.__all__, *(name for name in vars(acl.rt) if name[0] != '_'))"
    there = set(ran(machine(), program).split()) - {"rt"}
    assert there == set(re.findall(r"`(\w+)`", section.split("```")[2]))
