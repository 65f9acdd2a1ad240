"""Frameworks that people train with, unmodified, on the NPU: losses equal the CPU's, nothing falls back.

A test is a program on a number of ranks (clients.yaml); its environment is made the first time it is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig

import pytest

from tests.clients import archives, client, environment

GROUPS = [
    pytest.param(group, marks=[] if group.ranks in group.row["quick"] else pytest.mark.full, id=str(group))
    for group in client.groups()
]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("group", GROUPS)
def test_losses_equal_the_cpus_and_nothing_falls_back(group, capsys):
    try:
        environment.python(group.row["family"])
        for name in group.row["archives"]:
            archives.place(name)
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    found = client.outcomes(group)
    with capsys.disabled():
        print("", *found, sep=f"\n{group} ", end=" ")
    wrong = {f"{one.run} {one.precision}": client.wrong(group, one) for one in found}
    assert {case: text for case, text in wrong.items() if text} == {}


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_colossalai_run_starts_a_rank(tmp_path):
    try:
        home = environment.python("colossalai").parents[1]
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    site = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # It starts the torchrun of PATH, whose packages are this environment's: the client's are named.
    path = [str(site), os.environ.get("PYTHONPATH", ""), str(environment.ROOT)]
    own = {"PYTHONPATH": ":".join(filter(None, path)), "OMP_NUM_THREADS": "1", "XDG_RUNTIME_DIR": str(tmp_path),
           "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"}  # fmt: skip
    program = ["-m", "tests.clients.programs.colossalai_booster", "--device", "npu", "torch_ddp:fp32"]
    done = subprocess.run(
        [home / "bin" / "colossalai", "run", "--nproc_per_node", "1", *program], cwd=environment.ROOT,
        env={name: value for name, value in os.environ.items() if name.isidentifier()} | own,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    results = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert [(one["rank"], len(one["losses"])) for one in results] == [(0, 6)]
    assert results[0]["losses"][-1] < 0.1 * results[0]["losses"][0]
    assert "127.0.0.1: success" in done.stdout
