"""CPU_AFFINITY_CONF, torch_npu.utils.set_thread_affinity and reset_thread_affinity: which cpus threads really have."""

from __future__ import annotations

import json
import os
import threading

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.core.tools import output  # noqa: E402
from torch_npu.utils import affinity  # noqa: E402

CPUS = sorted(os.sched_getaffinity(0))
two = pytest.mark.skipif(len(CPUS) < 2, reason="binding is seen only where there are two cpus")


def test_what_the_variable_says():
    found = affinity.parse("2,force:1,npu1:4-6,npu1:9,npu0:3,npu_affine:1")
    assert (found.mode, found.force, found.near) == (2, True, True)
    assert found.ranges == {1: {4, 5, 6, 9}, 0: {3}}
    assert affinity.parse("mode:1").mode == 1 and affinity.parse("").mode == affinity.parse("0").mode == 0


WRONG_TEXTS = [
    "3", "one", "1,npu0:5-2", "1,npux:0-1", "1,force:2", "1,npu0:", "1,",
    "1,npu0:0-18446744073709551617", f"1,npu0:{'9' * 5000}", "1,npu99999999999:0",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_a_wrong_value_is_an_error_with_the_form(text):
    with pytest.raises(ValueError, match="is not understood: CPU_AFFINITY_CONF=<mode>"):
        affinity.parse(text)


@pytest.mark.parametrize(("part", "why"), [("bind_irq:1", "no interrupts"), ("lazy_bind:1", "first use of a device")])
def test_what_newer_versions_know_is_refused_with_its_reason(part, why):
    with pytest.raises(ValueError, match=f"{part[:-2]} is not taken here: .*{why}"):
        affinity.parse(f"1,{part}")


def test_an_npu_that_does_not_exist_is_named(monkeypatch):
    last = torch.npu.device_count() - 1
    monkeypatch.setenv("CPU_AFFINITY_CONF", f"1,force:1,npu0:{CPUS[-1]},npu{last + 2}:0")
    monkeypatch.setattr(affinity, "_state", {"bound": None, "plan": None, "refused": False})
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, cpus: None)
    with pytest.warns(UserWarning, match=f"there is no npu:{last + 2}, there are npu:0 to npu:{last}"):
        affinity.bind(0)


def test_cpus_are_told_as_ranges():
    assert [affinity.listed(frozenset(cpus)) for cpus in ((), (3,), (9, 0, 1, 2, 8))] == ["", "3", "0-2,8-9"]


def test_a_refusal_in_the_middle_leaves_every_thread_where_it_was(monkeypatch):
    """And the warning has the program's line, however deep below PyTorch it is found."""
    stop, real, calls = threading.Event(), os.sched_setaffinity, []
    thread = threading.Thread(target=stop.wait)
    thread.start()

    def refuses(who: int, cpus: object) -> None:
        calls.append(who)
        if len(calls) == 2:
            raise PermissionError(1, "Operation not permitted")
        real(who, cpus)

    monkeypatch.setattr(os, "sched_setaffinity", refuses)
    monkeypatch.setenv("CPU_AFFINITY_CONF", f"1,npu0:{CPUS[-1]}")
    monkeypatch.setattr(affinity, "_state", {"bound": None, "plan": None, "refused": False})
    with pytest.warns(UserWarning, match="binds nothing: the system does not let") as said:
        affinity.bind(0)
    found = [os.sched_getaffinity(one) for one in (threading.get_native_id(), thread.native_id)]
    stop.set()
    thread.join()
    assert found == [set(CPUS)] * 2 and len(calls) > 2
    assert said[0].filename == __file__


def test_shares_and_plans():
    assert [sorted(affinity.share(npu, 4, 9)) for npu in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert affinity.share(0, 8, 2) == frozenset()
    settings, cpus = affinity.parse("2,npu1:4-6"), frozenset({4, 5, 6})
    assert affinity.cpus_of(settings, 1, 8) == cpus
    assert affinity.plan(settings, cpus) == ({4}, {5, 6})
    assert affinity.plan(affinity.parse("1"), cpus) == (cpus, cpus)
    assert affinity.plan(settings, frozenset({4})) == ({4}, {4})


PROGRAM = """
import json, os, threading, warnings
import torch
threading.Thread(target=threading.Event().wait, daemon=True).start()  # one at least beside this one
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    torch.ones(8).npu().sum().item()
    torch.npu.set_device(DEVICE)
of = {}
for thread in map(int, os.listdir("/proc/self/task")):
    try:
        of[thread] = sorted(os.sched_getaffinity(thread))
    except ProcessLookupError:
        pass  # it has ended meanwhile
others = sorted({tuple(cpus) for thread, cpus in of.items() if thread != threading.get_native_id()})
texts = [str(w.message) for w in said if "CPU_AFFINITY_CONF" in str(w.message)]
print(json.dumps([of[threading.get_native_id()], others, texts]))
"""


def run(conf: str | None, device: int = 0, kept: int | None = None) -> tuple[list, list, list]:
    keep = "" if kept is None else f"import os; os.sched_setaffinity(0, [{kept}])\n"
    said = output(keep + PROGRAM.replace("DEVICE", str(device)), fresh=kept is not None, CPU_AFFINITY_CONF=conf)
    trains, others, said = json.loads(said.splitlines()[-1])
    return trains, [list(cpus) for cpus in others], said


@two
def test_coarse_binding_puts_all_threads_on_the_npus_cpus_and_follows_the_device():
    first, last = CPUS[0], CPUS[-1]
    conf = f"1,npu0:{first},npu1:{last}"
    assert run(conf) == ([first], [[first]], [])
    assert run(conf, 1) == ([last], [[last]], [])
    assert run("0")[0] == run(None)[0] == CPUS


@two
def test_fine_binding_keeps_a_cpu_for_the_thread_that_trains():
    first, last = CPUS[0], CPUS[-1]
    assert run(f"2,npu0:{first},npu0:{last}") == ([first], [[last]], [])


@two
def test_a_process_that_is_kept_to_fewer_cpus_is_left_alone_and_told_unless_forced():
    first, last = CPUS[0], CPUS[-1]
    trains, others, said = run(f"1,npu0:{last}", kept=first)
    assert trains == [first] and all(cpus == [first] for cpus in others)
    assert len(said) == 1 and "binds nothing" in said[0] and "force:1" in said[0]
    assert run(f"1,force:1,npu0:{last}", kept=first)[0] == [last]


def test_fewer_cpus_than_npus_are_said():
    count = os.cpu_count() or 1
    if count >= torch_npu.npu.device_count():
        pytest.skip("there is a cpu for each npu")
    trains, _, said = run("1")
    assert trains == CPUS and f"{count} cpus for {torch_npu.npu.device_count()} npus leave none for npu:0" in said[0]


@two
def test_a_thread_its_children_and_back():
    seen: dict[str, list[int]] = {}

    def work() -> None:
        torch_npu.utils.set_thread_affinity([CPUS[0], CPUS[0]])
        child = threading.Thread(target=lambda: seen.update(child=sorted(os.sched_getaffinity(0))))
        child.start()
        child.join()
        torch_npu.utils.set_thread_affinity([[CPUS[0], CPUS[0]], [CPUS[-1], CPUS[-1]]])
        seen["two"] = sorted(os.sched_getaffinity(0))
        torch_npu.utils.set_thread_affinity([CPUS[0], CPUS[0]])
        torch_npu.utils.set_thread_affinity()
        seen["all"] = sorted(os.sched_getaffinity(0))
        torch_npu.utils.set_thread_affinity([CPUS[-1], CPUS[-1]])
        torch_npu.utils.reset_thread_affinity()
        seen["back"] = sorted(os.sched_getaffinity(0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == {"child": CPUS[:1], "two": [CPUS[0], CPUS[-1]], "all": CPUS, "back": CPUS}
    assert sorted(os.sched_getaffinity(0)) == CPUS


WRONG = [
    [], [3], [2, 1], [-1, 2], "0-3", [[0, 1], 2], 5, [0, "x"], "01", [0.5, 1], ["0", "1"], [False, 0], {0: 0}, [[]],
    [[0, 0], [0, 999_999]], [0, 999_999], [10**20, 10**20], [0, 10**20],
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"should be \[first, last\]"):
        torch_npu.utils.set_thread_affinity(wrong)
    assert sorted(os.sched_getaffinity(0)) == CPUS


def test_cpus_that_there_are_not_are_an_error():
    with pytest.raises(ValueError, match="the process may use cpus"):
        torch_npu.utils.set_thread_affinity([4000, 4001])
