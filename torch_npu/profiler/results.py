"""The folder of a profile: what was recorded (FRAMEWORK), what it was recorded with, and the vendor's files made
from it.

<host>_<pid>_<time>_ascend_pt/
    profiler_info[_<rank>].json, profiler_metadata.json
    FRAMEWORK/events.json                  all rows, from which `analyse` makes the rest
    FRAMEWORK/torch_trace.json             data_simplification=False: PyTorch's own trace
    ASCEND_PROFILER_OUTPUT/*.csv, trace_view.json, communication*.json; *.db
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_npu.profiler import collect, communication, database, tables, timeline
from torch_npu.profiler.config import ExportType, ProfilerLevel, _ExperimentalConfig

OUTPUT = "ASCEND_PROFILER_OUTPUT"


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What cannot be written is named with the remedy: a full disk's error names no file."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        file, why = getattr(error, "filename", None) or folder, getattr(error, "strerror", None) or error
        text = (
            f"torch_npu.profiler: {file} cannot be written ({why}): make room there, allow it, or give "
            "tensorboard_trace_handler another dir_name"
        )
        raise (OSError(error.errno, text) if getattr(error, "errno", None) else OSError(text)) from error


def usable_base(dir_name: str | os.PathLike[str] | None) -> Path:
    """Makes the folder that profiles go into, and tries to write there.

    Raises TypeError for a `dir_name` that is no name, RuntimeError where it is a file, OSError where it cannot be made
    or written."""
    if dir_name is not None and not isinstance(dir_name, str):
        if not isinstance(dir_name, os.PathLike) or not isinstance(os.fspath(dir_name), str):
            raise TypeError(f"torch_npu.profiler: dir_name is {dir_name!r}; it must be a str or a Path")
    work = os.environ.get("ASCEND_WORK_PATH")
    base = Path(dir_name) if dir_name else Path(work) / "profiling_data" if work else Path.cwd()
    remedy = "give tensorboard_trace_handler another dir_name"
    try:
        if base.exists() and not base.is_dir():
            raise RuntimeError(f"torch_npu.profiler: {base} is not a folder: {remedy}")
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            pass
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        why = getattr(error, "strerror", None) or error
        raise OSError(f"torch_npu.profiler: the folder {str(base)!r} cannot be written ({why}): {remedy}") from error
    return base.absolute()


def new_folder(base: Path, worker_name: str | None) -> Path:
    """Makes the folder of one profile in the one that usable_base gave. Raises OSError where it cannot be made."""
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    now = time.time_ns()
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now // 10**9)) + f"{now // 10**6 % 1000:03}"
    for n in range(1000):  # of several within a millisecond, which may be ranks with one name, each makes its own
        folder = base / f"{worker}_{int(stamp) + n}_ascend_pt"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        (folder / "FRAMEWORK").mkdir()
        return folder
    raise FileExistsError(f"torch_npu.profiler: {folder} and the 999 before it are there: give another worker_name")


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else -1


def _groups() -> dict[str, Any]:
    """For profiler_metadata.json: this process's communicators with their ranks, and how many ranks a host has."""
    if _rank() < 0:
        return {}
    from torch.distributed import distributed_c10d as c10d

    from torch_npu.distributed._wrapped import hccl_backends

    infos = {}
    for group in list(c10d._world.pg_map):
        rank = dist.get_rank(group)
        for backend in hccl_backends(group) if rank >= 0 else ():
            if name := backend.get_hccl_comm_name(rank, False):
                infos[name] = {"group_name": c10d._world.pg_names[group], "group_rank": rank,
                               "global_ranks": dist.get_process_group_ranks(group)}  # fmt: skip
    per_host = os.environ.get("LOCAL_WORLD_SIZE", "")
    return {"parallel_group_info": infos} | ({"ranks_per_host": int(per_host)} if per_host.isdigit() else {})


def _info(prof: Any, config: _ExperimentalConfig, rows: dict[str, list]) -> dict[str, Any]:
    end = max((r["end"] for kind in rows.values() for r in kind), default=time.time_ns())
    common = {
        "activities": [f"ProfilerActivity.{'CPU' if a == torch.profiler.ProfilerActivity.CPU else 'NPU'}"
                       for a in sorted(prof.activities, key=int)],
        **{name: bool(getattr(prof, name)) for name in
           ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")},
    }  # fmt: skip
    import torch_npu

    return {
        "config": {"common_config": common, "experimental_config": config.described()},
        "start_info": {"syscnt_enable": False, "freq": None, "start_cnt": 0, "start_monotonic": 0},
        "end_info": {"collectionTimeEnd": end, "MonotonicTimeEnd": time.monotonic_ns()},
        "torch_npu_version": torch_npu.__version__,
        "rank_id": _rank(),
        "process_id": os.getpid(),
        "has_npu": any(a != torch.profiler.ProfilerActivity.CPU for a in prof.activities),
    }


def keep(folder: Path, prof: Any) -> None:
    """Writes what the profile recorded, and how. Raises OSError, which names the file or the folder."""
    with _writing(folder):
        _keep(folder, prof)


def _keep(folder: Path, prof: Any) -> None:
    rows = collect.collect(prof)
    if watch := getattr(prof, "_watch", None):
        rows |= watch.rows
    config = getattr(prof, "_npu_config", None) or _ExperimentalConfig()
    rows["ranges"] = [r for r in rows["ranges"] if config.tx_enabled and config.takes_domain(r["domain"])]
    kept = {id(t) for t in rows["tasks"] if "domain" not in t["args"] or
            (config.tx_enabled and config.takes_domain(t["args"]["domain"]))}  # fmt: skip
    rows["tasks"] = [t for t in rows["tasks"] if id(t) in kept]
    info = _info(prof, config, rows)
    rank = info["rank_id"]
    name = f"profiler_info_{rank}.json" if rank >= 0 else "profiler_info.json"
    (folder / name).write_text(json.dumps(info, indent=1), encoding="utf-8")
    metadata = _groups() | {k: _value(v) for k, v in {**prof.preset_metadata, **prof._trace_metadata}.items()}
    (folder / "profiler_metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    (folder / "FRAMEWORK" / "events.json").write_text(json.dumps(rows), encoding="utf-8")
    if config.keeps_trace:
        trace = folder / "FRAMEWORK" / "torch_trace.json"
        prof.export_chrome_trace(str(trace))
        prof._kept_trace = trace


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(file: Path) -> Any:
    """Raises RuntimeError where the file is not there or is no JSON, or nested beyond reading."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RuntimeError(f"{file} cannot be read ({error}): profile anew") from error


def analyse_folder(folder: Path, kinds: list[str] | None = None) -> None:
    """Makes ASCEND_PROFILER_OUTPUT of one folder anew; `kinds` of files: as the profile was asked for, if None.

    Raises RuntimeError, which names the folder, where it is damaged; OSError where it cannot be written."""
    infos = sorted(folder.glob("profiler_info*.json"))
    if not infos:
        raise RuntimeError(f"{folder} has no profiler_info*.json: it is no profile's folder, or not all was written")
    info, rows = _read(infos[0]), _read(folder / "FRAMEWORK" / "events.json")
    metadata, output = _read(folder / "profiler_metadata.json"), folder / OUTPUT
    try:
        chosen = kinds or info["config"]["experimental_config"]["_export_type"]
        groups = communication.Groups(metadata)
        with _writing(output):
            output.mkdir(exist_ok=True)
            if ExportType.Text in chosen:
                _text(output, info, rows, groups)
            if ExportType.Db in chosen:
                rank = f"_{info['rank_id']}" if info["rank_id"] >= 0 else ""
                database.write(output / f"ascend_pytorch_profiler{rank}.db", rows, info, metadata)
                database.write_analysis(output / "analysis.db", rows, groups)
    except OSError:  # of _writing
        raise
    except Exception as error:  # numbers may be of any size, and rows of any kind
        raise RuntimeError(
            f"{folder} has not what a profile has ({type(error).__name__}: {error}): profile anew"
        ) from error


def _text(output: Path, info: dict[str, Any], rows: dict[str, list], groups: communication.Groups) -> None:
    common = info["config"]["common_config"]
    level = info["config"]["experimental_config"]["_profiler_level"]
    timeline.write(output / "trace_view.json", rows, info["process_id"])
    if "ProfilerActivity.CPU" in common["activities"]:
        tables.write(output / "operator_details.csv", tables.operator_details(rows))
    if info["has_npu"]:
        tables.write(output / "step_trace_time.csv", tables.step_trace_time(rows))
        if level != ProfilerLevel.Level_none:
            tables.write(output / "kernel_details.csv", tables.kernel_details(rows, level == ProfilerLevel.Level0))
            tables.write(output / "task_time.csv", tables.task_time(rows))
        if level in (ProfilerLevel.Level1, ProfilerLevel.Level2):
            tables.write(output / "op_statistic.csv", tables.op_statistic(rows))
            tables.write(output / "api_statistic.csv", tables.api_statistic(rows))
            if times := communication.times(rows, groups):
                (output / "communication.json").write_text(json.dumps(times), encoding="utf-8")
                links = communication.matrix(rows, groups)
                (output / "communication_matrix.json").write_text(json.dumps(links), encoding="utf-8")
    if common["profile_memory"]:
        tables.write(output / "memory_record.csv", tables.memory_record(rows))
        tables.write(output / "operator_memory.csv", tables.operator_memory(rows))
        tables.write(output / "npu_module_mem.csv", tables.npu_module_mem(rows))


def analyse(
    profiler_path: str, max_process_number: int | None = None, export_type: str | list[str] | None = None
) -> None:
    """Makes the files of every *_ascend_pt folder in `profiler_path`, or of itself: for profiles kept with
    analyse_flag=False.

    Args:
        profiler_path: the folder.
        max_process_number: the vendor's; at least 1. The folders are done one after the other, in this process.
        export_type: "text", "db" or a list of them; by default what the profile was asked for.

    Raises: ValueError for other values; RuntimeError where there is no folder, and after the others are done for
    folders that are damaged, all by name.
    """
    number = max_process_number
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ValueError(f"torch_npu.profiler.analyse: max_process_number is {number!r}, and should be at least 1")
    kinds = [export_type] if isinstance(export_type, str) else export_type
    if kinds is not None and not (isinstance(kinds, list) and kinds and set(kinds) <= ExportType.all()):
        raise ValueError(
            f"torch_npu.profiler.analyse: export_type is {export_type!r}, and should be {sorted(ExportType.all())}"
        )
    base = Path(profiler_path)
    folders = [base] if base.name.endswith("_ascend_pt") else sorted(base.glob("*_ascend_pt"))
    if not folders:
        raise RuntimeError(f"torch_npu.profiler.analyse: {base} has no folder whose name ends in _ascend_pt")
    damaged = []
    for folder in folders:
        try:
            analyse_folder(folder, kinds)
        except (RuntimeError, OSError) as error:
            damaged.append(error)
    if damaged:
        raise RuntimeError(
            f"torch_npu.profiler.analyse: {len(damaged)} of {len(folders)} folders could not be analysed: "
            + "; ".join(map(str, damaged))
        ) from damaged[0]
