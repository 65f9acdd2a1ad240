"""PyTorch's DistributedTest class: nothing fails outside the reasoned list of distributed.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.distributed.conftest import package_folder


@pytest.mark.full
@pytest.mark.parametrize(("ranks", "at_least"), [(2, 130), (4, 100)])  # many tests are for two ranks
def test_the_distributed_test_class(root, tmp_path, ranks, at_least, capsys):
    out = tmp_path / "rows.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.upstream.distributed", "--pixels", "64"]
    subprocess.run(
        [*command, "--ranks", str(ranks), "--timeout", "900", "--json", str(out)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": package_folder()},
        check=True,
        capture_output=True,
        timeout=3000,
    )
    rows = json.loads(out.read_text())
    counts = Counter(row["outcome"] for row in rows)
    with capsys.disabled():
        print(f"\n{ranks} ranks: {dict(counts)}", end=" ")
    assert [(row["test"], row["why"][-500:]) for row in rows if row["outcome"] == "failed"] == []
    assert counts["passed"] >= at_least
