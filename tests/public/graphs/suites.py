"""Which suites there are: where their files lie in a checkout, and which sides they have."""

from __future__ import annotations

import dataclasses
from pathlib import Path

CASES = str(Path(__file__).with_name("inductor_cases.py"))


@dataclasses.dataclass(frozen=True)
class Suite:
    patterns: tuple[str, ...]  # of files in the checkout; an absolute one is the file itself
    template: tuple[str, str] | None = None  # module and class that inductor_cases.py makes tests of
    control: str = ""  # "cpu": the same tests on the CPU; "without": without torch_npu; "": there is none
    sharded: bool = False  # the one file's tests over all processes, instead of a file a process
    modules: tuple[str, ...] = ()  # of the checkout that are imported before the files


SUITES = {
    "inductor": Suite((CASES,), ("inductor.test_torchinductor", "CommonTemplate"), "cpu", True),
    "inductor_dynamic": Suite(
        (CASES,), ("inductor.test_torchinductor_dynamic_shapes", "DynamicShapesCommonTemplate"), "cpu", True
    ),
    "dynamo": Suite(("test/dynamo/test_*.py",), control="without"),
    "npugraph": Suite(
        (
            "test/npu/test_*aclgraph*.py",
            "test/npu/test_npugraph_handler.py",
            "test/npu/test_graph_tree.py",
            "test/dynamo/test_npugraph*.py",
        )
    ),
    "torchair": Suite(("tests/smoke/*_test.py",)),
    "npugraph_ex": Suite(("npugraph_ex/tests/smoke/*_test.py",)),
}


def files(suite: Suite, checkout: Path) -> list[str]:
    found = []
    for pattern in suite.patterns:
        found += [pattern] if pattern.startswith("/") else sorted(map(str, checkout.glob(pattern)))
    return list(dict.fromkeys(found))
