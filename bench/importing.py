"""What the plugin adds to `import torch`, and to the first tensor: time and memory, in fresh interpreters."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

PROGRAM = """
import json, sys, time
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / 2**20
start = time.perf_counter()
import torch
if {plugin!r}:
    import {plugin}
imported = time.perf_counter() - start, resident()
x = torch.ones(4, device={device!r}) + 1
assert x.sum().item() == 8
print(json.dumps([*imported, time.perf_counter() - start, resident()]))
"""


def measure(plugin: str, device: str) -> list[float]:
    """Seconds and MiB after the import, then after the first result."""
    program = PROGRAM.format(plugin=plugin, device=device).replace("import \n", "pass\n")
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if plugin else "0"}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"bench: the interpreter that imports {plugin or 'torch'} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def run(plugin: str, device: str, rounds: int) -> Iterator[tuple[str, str, float, float, float]]:
    """Name, unit, with the plugin, without it, difference."""
    pairs = [(measure(plugin, device), measure("", "cpu")) for _ in range(rounds + 1)][1:]  # the first fills caches
    names = (("import", "s"), ("import", "MiB"), ("first tensor", "s"), ("first tensor", "MiB"))
    for index, (name, unit) in enumerate(names):
        ours, theirs = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
        yield name, unit, ours, theirs, statistics.median(a[index] - b[index] for a, b in pairs)
