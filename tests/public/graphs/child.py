"""One process of a run: pytest over one file, in a seeded order, a JSON line before and after each test. It may crash
or hang: processes.py notices, and starts another for what is left. The one argument is a file of options.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import sys
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OPTIONS: dict = {}


class Reporter:
    """A plugin of pytest: chooses and orders the tests, writes what became of each."""

    def __init__(self, answers):
        self.answers_, self.started_, self.parts_ = answers, 0.0, []

    def say(self, **message) -> None:
        self.answers_.write(json.dumps(message) + "\n")
        self.answers_.flush()

    def name(self, nodeid: str) -> str:
        return "::".join([Path(OPTIONS["file"]).name, *nodeid.split("::")[1:]])

    def pytest_collection_modifyitems(self, items: list) -> None:
        from tests.public.graphs import missing

        items.sort(key=lambda item: item.nodeid)
        random.Random(OPTIONS["seed"]).shuffle(items)
        shard, shards = OPTIONS["shard"]
        done, only = set(OPTIONS["done"]), OPTIONS["only"] and set(OPTIONS["only"])
        items[:] = [
            item
            for item in items[shard::shards]
            if self.name(item.nodeid) not in done and (not only or self.name(item.nodeid) in only)
        ]
        missing.Missing.importing = False
        self.say(collected=len(items))

    def pytest_collectreport(self, report) -> None:
        if report.failed or report.skipped:
            self.say(broken=self.name(report.nodeid), detail=str(report.longrepr)[-3000:])

    def pytest_runtest_logstart(self, nodeid: str, location: tuple) -> None:
        self.started_, self.parts_ = time.monotonic(), []
        self.say(start=self.name(nodeid))

    def pytest_runtest_logreport(self, report) -> None:
        self.parts_.append(report)

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple) -> None:
        worst = next((r for r in self.parts_ if r.failed), None) or next((r for r in self.parts_ if r.skipped), None)
        outcome = worst.outcome if worst else "passed"
        if worst and worst.skipped and hasattr(worst, "wasxfail"):
            outcome = "xfailed"
        detail = str(worst.longrepr)[-6000:] if worst else ""
        self.say(
            id=self.name(nodeid), outcome=outcome, seconds=round(time.monotonic() - self.started_, 2), detail=detail
        )


def prepare() -> None:
    """The plugin, or modules of its names that have no npu, for files that import it all the same."""
    import torch

    if OPTIONS["side"] == "without":
        torch.npu, torchair = types.ModuleType("torch.npu"), types.ModuleType("torchair")
        torch.npu.is_available, torch.npu.device_count = lambda: False, lambda: 0
        torchair.get_npu_backend = lambda *_, **__: "npu"
        plugin = types.ModuleType("torch_npu")
        plugin.npu = torch.npu
        sys.modules.update(
            {"torch_npu": plugin, "torch_npu.npu": torch.npu, "torch.npu": torch.npu, "torchair": torchair}
        )
    if OPTIONS["side"] == "npu":
        import torch_npu  # noqa: F401
        from tests.public.graphs import vendor_testing

        vendor_testing.install()
        torch.ones(1).npu()


def main() -> int:
    sys.modules["tests.public.graphs.child"] = sys.modules["__main__"]
    sys.path.append(str(ROOT))  # at the end: the installed torch_npu is judged, not the one of these sources
    OPTIONS.update(json.loads(Path(sys.argv[1]).read_text()))
    reporter = Reporter(os.fdopen(os.dup(1), "w"))  # what a test prints does not come between the answers
    os.dup2(2, 1)
    import pytest

    from tests.public.graphs import missing

    prepare()
    missing.supply(Path(OPTIONS["file"]))
    builtins.HAS_CUDA = False  # Ascend's copy of test_functions asks, without importing the name
    arguments = ["-q", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull, "--disable-warnings", "--tb=short"]
    arguments += [f"--rootdir={Path(OPTIONS['file']).parent}", OPTIONS["file"]]
    return int(pytest.main(arguments, plugins=[reporter]))


if __name__ == "__main__":
    sys.exit(main())
