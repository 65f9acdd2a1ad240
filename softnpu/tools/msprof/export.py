"""What msprof makes of a PROF_* folder, under the names by which the vendor's profiler looks for it:

mindstudio_profiler_output/msprof_<time>.json, op_summary, op_statistic, api_statistic, task_time, npu_mem,
    npu_module_mem
msprof_<time>.db
analyze/communication.json, communication_matrix.json, communication_analyzer.db
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from . import communication, database, tables, timeline
from .recorded import Profile

OUTPUT, ANALYZE = "mindstudio_profiler_output", "analyze"
# --rule of an analysis: the tables of a database that are its; <rule>.json is its text.
RULES = {
    "communication": ("CommAnalyzerTime", "CommAnalyzerBandwidth"),
    "communication_matrix": ("CommAnalyzerMatrix",),
}


def _stamp() -> str:
    return time.strftime("%Y%m%d%H%M%S")


def text(profile: Profile) -> Path:
    """The timeline and the tables, all at once: the vendor's profiler reads the one when it sees one of the others."""
    rows, output, stamp = profile.rows, profile.folder / OUTPUT, _stamp()
    making = profile.folder / f"{OUTPUT}.{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    timeline.write(making / f"msprof_{stamp}.json", rows, profile.process)
    made = {"op_summary": tables.op_summary(rows), "op_statistic": tables.op_statistic(rows),
            "api_statistic": tables.api_statistic(rows), "task_time": tables.task_time(rows)}  # fmt: skip
    if rows["memory"]:
        made |= {"npu_mem": tables.npu_mem(rows), "npu_module_mem": tables.module_mem(rows)}
    for name, table in made.items():
        tables.write(making / f"{name}_{stamp}.csv", table)
    shutil.rmtree(output, ignore_errors=True)
    making.rename(output)
    return output


def db(profile: Profile) -> Path:
    for old in profile.folder.glob("msprof_*.db"):
        old.unlink()
    path = profile.folder / f"msprof_{_stamp()}.db"
    making = profile.folder / f"{path.name}.{os.getpid()}"
    database.write_cann(making, profile.rows, profile.process)
    making.rename(path)
    return path


def _save(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def analyze_text(profile: Profile, rule: str | None = None) -> Path | None:
    """By `rule` alone, or by both. None: the profile has no communication."""
    groups = communication.Groups(profile.metadata())
    found = {name: one for _, _, name, one in communication.described(profile.rows, groups)}
    if not found:
        return None
    links: dict[str, dict[str, Any]] = {name: {} for name in found}
    for _, _, name, link, _, one in communication.linked(profile.rows, groups):
        links[name][link] = one
    output = profile.folder / ANALYZE
    output.mkdir(exist_ok=True)
    for name, content in {"communication": found, "communication_matrix": links}.items():
        if rule in (None, name):
            _save(output / f"{name}.json", content)
    return output


def analyze_db(profile: Profile, rule: str | None = None) -> Path | None:
    groups = communication.Groups(profile.metadata())
    if not any(True for _ in communication.operations(profile.rows)):
        return None
    output = profile.folder / ANALYZE
    output.mkdir(exist_ok=True)
    wanted = [table for name in RULES if rule in (None, name) for table in RULES[name]]
    database.write_communication(output / "communication_analyzer.db", profile.rows, groups, wanted)
    return output
