"""Starts a client's program on the CPU and on the NPU and compares: clients.yaml says which programs there are.

Not a test by itself: test_clients.py asserts what is found here, record.py writes it down.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.clients import archives, environment
from tools.codegen import tables

CLIENTS = Path(__file__).with_name("clients.yaml")


@dataclass(frozen=True)
class Group:
    """A program on a number of ranks: what one process group runs."""

    name: str
    ranks: int
    row: dict

    def __str__(self) -> str:
        return f"{self.name}-{self.ranks}"

    @property
    def program(self) -> str:
        return self.row.get("program", self.name)

    @property
    def cases(self) -> list[tuple[str, str]]:
        return [(run, precision) for run in self.row["runs"] for precision in self.row["precisions"]]


@dataclass(frozen=True)
class Outcome:
    """What came of a case. A difference of None: it has no losses to compare, `error` says why."""

    run: str
    precision: str
    first: float | None = None
    last: float | None = None
    last_cpu: float | None = None
    difference: float | None = None
    fallbacks: dict[str, int] | None = None
    seconds: float | None = None
    seconds_cpu: float | None = None
    error: str | None = None

    def __str__(self) -> str:
        if self.error:
            return f"{self.run} {self.precision} FAILED {self.error}"
        return (
            f"{self.run} {self.precision} loss {self.first:.4f} → {self.last:.4f}, CPU {self.last_cpu:.4f}, difference"
            f" {self.difference:.1e}, fallbacks {self.fallbacks}, {self.seconds:.1f} s, CPU {self.seconds_cpu:.1f} s"
        )


def groups(path: Path = CLIENTS) -> list[Group]:
    rows = tables.load(path)
    default = rows.pop("default")
    return [Group(name, ranks, default | row) for name, row in rows.items() for ranks in (default | row)["ranks"]]


def start(group: Group, device: str, runs: list[str], folder: str, timeout: float) -> list[dict]:
    """The program's lines of all ranks. One that dies or hangs leaves out what it has not done; `end` says how."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_")}
    python = environment.python(group.row["family"])
    own = {
        # As in an activated environment: Megatron-LM compiles with the pybind11 of the python3 of PATH.
        "PATH": f"{python.parent}:{keep['PATH']}",
        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore",
        "PYTHONUNBUFFERED": "1", "XDG_RUNTIME_DIR": folder,
        "TORCH_EXTENSIONS_DIR": str(environment.HOME / group.row["family"] / "extensions"),
    }  # fmt: skip
    path = [*(str(archives.place(name)) for name in group.row["archives"]), keep.get("PYTHONPATH", "")]
    own |= {"PYTHONPATH": ":".join(filter(None, path))}
    own |= {name: value.format(device=device) for name, value in group.row["variables"].items()}
    launch = (
        ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={group.ranks}"] if group.ranks > 1 else []
    )
    program = ["-m", f"tests.clients.programs.{group.program}", "--device", device, "--folder", folder, *runs]
    command = [str(python), *launch, *program]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=environment.ROOT, env=keep | own, stdout=output, stderr=said, start_new_session=True
        )
        try:
            end = f"the process ended with {process.wait(timeout)}"
        except subprocess.TimeoutExpired:
            end = f"no end within {timeout:.0f} s"
            os.killpg(process.pid, 9)
            process.wait()
        output.seek(0)
        said.seek(0)
        lines = [json.loads(line[7:]) for line in output.read().decode().splitlines() if line.startswith("RESULT ")]
        log = environment.HOME / f"{group}-{device}.log"
        log.write_bytes(said.read())
    # The launcher's own report comes after what its ranks said.
    last = [
        line for line in log.read_text(errors="replace").splitlines() if re.match(r"(\[rank\d\]:)?\s?\w+Error: ", line)
    ]
    end += f", {log} says {last[0] if last else 'nothing more'}"
    return [*lines, {"end": end}]


def by_rank(lines: list[dict], run: str) -> dict[int, dict]:
    return {line["rank"]: line for line in lines if line.get("run") == run}


def compare(group: Group, run: str, precision: str, npu: list[dict], cpu: list[dict]) -> Outcome:
    reference = group.row["cpu"].get(precision, precision)
    found, expected = by_rank(npu, f"{run}:{precision}"), by_rank(cpu, f"{run}:{reference}")
    for where, lines, all_lines in (("npu", found, npu), ("CPU", expected, cpu)):
        for rank in range(group.ranks):
            if rank not in lines:
                return Outcome(run, precision, error=f"{where} rank {rank}: {all_lines[-1]['end']}")
            if "error" in lines[rank]:
                said = "\n".join((lines[rank]["error"], *lines[rank]["trace"]))
                return Outcome(run, precision, error=f"{where} rank {rank}: {said}")
    difference, fallbacks = 0.0, {}
    for rank in range(group.ranks):
        ours, theirs = found[rank]["losses"], expected[rank]["losses"]
        if len(ours) != len(theirs):
            return Outcome(run, precision, error=f"rank {rank}: {len(ours)} losses, on the CPU {len(theirs)}")
        # A loss that is not a number makes the difference infinite: no comparison with it is true.
        # Where both are 0, the difference itself.
        each = [abs(a - b) / (max(abs(b), 0.1 * abs(theirs[0])) or 1.0) for a, b in zip(ours, theirs, strict=True)]
        difference = max([difference, *(value if value == value else float("inf") for value in each)])
        for name, count in found[rank]["fallbacks"].items():
            fallbacks[name] = fallbacks.get(name, 0) + count
        if not group.row["constant"] and ours[0] == ours[-1]:
            why = f"rank {rank}: the loss is {ours[0]:.4g} from the first step to the last: nothing is learned"
            return Outcome(run, precision, error=why)
    mine, other = found[0], expected[0]
    return Outcome(
        run, precision, mine["losses"][0], mine["losses"][-1], other["losses"][-1], difference, fallbacks,
        mine["seconds"], other["seconds"],
    )  # fmt: skip


def outcomes(group: Group, timeout: float = 580) -> list[Outcome]:
    """Every case of the group: by one process group on each of NPU and CPU, or, apart, by one for each case."""
    found = []
    for cases in [[case] for case in group.cases] if group.row["apart"] else [group.cases]:
        runs = {f"{run}:{precision}": None for run, precision in cases}
        on_cpu = {f"{run}:{group.row['cpu'].get(precision, precision)}": None for run, precision in cases}
        with tempfile.TemporaryDirectory() as folder:
            npu = start(group, "npu", list(runs), folder, timeout)
            cpu = start(group, "cpu", list(on_cpu), folder, timeout)
        found += [compare(group, run, precision, npu, cpu) for run, precision in cases]
    return found


def wrong(group: Group, outcome: Outcome) -> str | None:
    """What is wrong with it; None: nothing."""
    if outcome.error:
        return outcome.error
    allowed = group.row["allowed"][outcome.precision]
    if not outcome.difference <= allowed:
        return f"difference {outcome.difference:.1e} from the CPU, {allowed:.1e} allowed"
    missing = sorted(set(outcome.fallbacks) - set(group.row["fall back"]))
    return f"fell back to the CPU: {', '.join(missing)}" if missing else None
