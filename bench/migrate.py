"""How fast the migration tool is: lines a second over a large tree, with one thread and with all.

    python bench/migrate.py [FOLDER]        (default: the installed torch)

The best of three runs of the tool with --check; Python's own parser and LibCST (`pip install libcst`), on a part of the
files that have CUDA words, for comparison. The original tool did 57 lines a second.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

PARSED = 200_000  # lines that Python's parser is timed on


def find_tool() -> Path:
    spec = importlib.util.find_spec("torch_npu")
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]
    return Path(os.environ.get("ANYCEND_GPU2NPU") or next(f / "bin" / "pytorch_gpu2npu" for f in folders))


def tool_lines(tool: Path, tree: Path, jobs: int) -> tuple[int, float, float]:
    """Lines, and the best wall and processor seconds of three runs."""
    best_wall, best_cpu, lines = float("inf"), float("inf"), 0
    for _ in range(3):
        before = os.times()
        done = subprocess.run([tool, "-i", tree, "--check", "--json", "--jobs", str(jobs)], capture_output=True)
        after = os.times()
        report = json.loads(done.stdout)
        lines = report["lines"]
        best_wall = min(best_wall, report["seconds"])
        best_cpu = min(
            best_cpu, after.children_user + after.children_system - before.children_user - before.children_system
        )
    return lines, best_wall, best_cpu


def python_lines(tree: Path, parse) -> float:
    warnings.simplefilter("ignore")
    lines, begin = 0, time.process_time()
    for path in sorted(tree.rglob("*.py")):
        data = path.read_bytes()
        if b"cuda" in data:
            try:
                parse(data)
            except Exception:
                continue
            lines += data.count(b"\n")
        if lines > PARSED:
            break
    return lines / (time.process_time() - begin)


def main() -> None:
    torch = importlib.util.find_spec("torch")
    tree = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(torch.submodule_search_locations[0])
    tool = find_tool()
    for jobs in sorted({1, os.cpu_count() or 1}):
        lines, wall, cpu = tool_lines(tool, tree, jobs)
        print(
            f"pytorch_gpu2npu, {jobs} thread(s): {lines / wall:12,.0f} lines/s   "
            f"({lines:,} lines, {wall:.2f} s, processor {cpu:.2f} s)"
        )
    print(f"ast.parse of files with CUDA words: {python_lines(tree, ast.parse):9,.0f} lines/s")
    if importlib.util.find_spec("libcst"):
        import libcst

        global PARSED
        PARSED = 20_000
        visitor = libcst.CSTVisitor()
        rate = python_lines(tree, lambda data: libcst.parse_module(data).visit(visitor))
        print(f"LibCST parse and visit of a part:   {rate:9,.0f} lines/s")


if __name__ == "__main__":
    main()
