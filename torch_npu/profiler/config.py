"""What the vendor's profiler lets a program choose, and which of it means something on the device at hand.

Figures of AI cores, caches and links are hardware counters. This profiler has no source of them, so a
choice that asks for one is warned about and not stored as if it were fulfilled.
"""

from __future__ import annotations

from typing import Any

from torch_npu.utils._caller import warn


class _Names:
    """A class whose attributes are names: the vendor's classes are no enumerations, and their values are strings."""

    @classmethod
    def all(cls) -> set[str]:
        return {value for name, value in vars(cls).items() if not name.startswith("_") and isinstance(value, str)}


class ProfilerLevel(_Names):
    """How much is written: Level_none no tables of kernels and calls, Level0 few columns, Level1 and Level2 all."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics(_Names):
    """Counters of AI cores. None has a source here: see `supported_ai_core_metrics`."""

    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType(_Names):
    """What is written: Text csv and json files, Db SQLite databases."""

    Text = "text"
    Db = "db"


class HostSystem(_Names):
    """Figures of the host: CPU and MEM are recorded; the others have no source here."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def supported_profiler_level() -> set[str]:
    """The values of ProfilerLevel, which experimental_config's profiler_level takes."""
    return ProfilerLevel.all()


def supported_ai_core_metrics() -> set[str]:
    """Those that can be asked for and are fulfilled: only that there are none."""
    return {AiCMetrics.AiCoreNone}


def supported_export_type() -> set[str]:
    """The values of ExportType, which experimental_config's export_type takes."""
    return ExportType.all()


def _choice(name: str, value: Any, known: set[str], otherwise: str) -> str:
    if isinstance(value, str) and value in known:
        return value
    warn(f"torch_npu.profiler: {name} is {value!r}, which is none of {sorted(known)}; {otherwise!r} is used")
    return otherwise


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    warn(f"torch_npu.profiler: {name} is {value!r} and should be True or False; False is used")
    return False


def _without(name: str, why: str) -> None:
    warn(f"torch_npu.profiler: {name} is left out: {why}")


class _ExperimentalConfig:
    """What else a profile records and writes: experimental_config of torch_npu.profiler.profile.

    A value that is none of those known, and what has no source here, is a UserWarning that says what is used instead;
    nothing is raised. docs/profiling.md says which files each choice writes.

    Args:
        profiler_level (str): a name of ProfilerLevel. Level_none writes no tables of kernels and calls, Level0 the
            first columns of the kernels', Level1 and Level2 all columns, the statistics and the collectives.
        aic_metrics (str): a name of AiCMetrics. There are no counters of AI cores: all but AiCoreNone, which None is,
            are left out with a warning.
        l2_cache, op_attr, record_op_args, sys_io, sys_interconnection (bool): counters of hardware and its records;
            True is left out with a warning.
        msprof_tx (bool): the old name of mstx.
        mstx (bool): put the ranges and marks of torch_npu.npu.mstx into the timeline.
        mstx_domain_include (list of str): of these domains alone; None or [] of all.
        mstx_domain_exclude (list of str): of all domains but these; not beside mstx_domain_include.
        data_simplification (bool): False keeps PyTorch's own trace in the folder, too.
        gc_detect_threshold (float): pauses of Python's garbage collector of at least so many milliseconds are put into
            the timeline; None of none.
        export_type (str or list of str): names of ExportType: Text writes csv and json files, Db SQLite databases. None
            is Text.
        host_sys (list of str): names of HostSystem. CPU and MEM put the use of the machine's processors and of its
            memory into the timeline, 50 times a second; the others are left out with a warning.

    Source: the vendor's documentation of torch_npu.profiler._ExperimentalConfig."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str | None = None,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | list[str] | None = None,
        host_sys: list[str] | None = None,
        mstx_domain_include: list[str] | None = None,
        mstx_domain_exclude: list[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        self._profiler_level = _choice("profiler_level", profiler_level, ProfilerLevel.all(), ProfilerLevel.Level0)
        self._aic_metrics = AiCMetrics.AiCoreNone
        aic_metrics = aic_metrics or self._aic_metrics
        if _choice("aic_metrics", aic_metrics, AiCMetrics.all(), AiCMetrics.AiCoreNone) != AiCMetrics.AiCoreNone:
            _without(f"aic_metrics={aic_metrics}", "there are no counters of AI cores")
        counters = {"l2_cache": l2_cache, "op_attr": op_attr, "sys_io": sys_io,
                    "sys_interconnection": sys_interconnection, "record_op_args": record_op_args}  # fmt: skip
        for name, value in counters.items():
            if _switch(name, value):
                _without(name, "nothing here counts it")
        self._host_sys = self._host(host_sys)
        self._gc_detect_threshold = self._milliseconds(gc_detect_threshold)
        self._mstx = _switch("mstx", mstx) or _switch("msprof_tx", msprof_tx)
        self._mstx_domain_include = self._domains("mstx_domain_include", mstx_domain_include)
        self._mstx_domain_exclude = self._domains("mstx_domain_exclude", mstx_domain_exclude)
        if self._mstx_domain_include and self._mstx_domain_exclude:
            warn("torch_npu.profiler: mstx_domain_include and mstx_domain_exclude are both given; the first holds")
            self._mstx_domain_exclude = []
        self._data_simplification = data_simplification is True or _switch("data_simplification", data_simplification)
        several = isinstance(export_type, (list, tuple, set, frozenset))
        wanted = list(export_type) if several else [] if export_type is None else [export_type]
        chosen = [_choice("export_type", kind, ExportType.all(), ExportType.Text) for kind in wanted or ["text"]]
        self._export_type = list(dict.fromkeys(chosen))

    @staticmethod
    def _host(wanted: Any) -> list[str]:
        several = isinstance(wanted, (list, tuple, set, frozenset))
        chosen = list(wanted) if several else [] if wanted is None else [wanted]
        counted = (HostSystem.CPU, HostSystem.MEM)
        for one in chosen:
            if one not in counted and _choice("host_sys", one, HostSystem.all(), "nothing") == one:
                _without(f"host_sys={one}", "nothing here counts it; cpu and mem are recorded")
        return [one for one in counted if one in chosen]

    @staticmethod
    def _milliseconds(value: Any) -> float | None:
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0):
            return value
        warn(
            f"torch_npu.profiler: gc_detect_threshold is {value!r} and should be a number of milliseconds, 0 or more; "
            "pauses of the garbage collector are not recorded"
        )
        return None

    @staticmethod
    def _domains(name: str, value: Any) -> list[str]:
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return value
        warn(f"torch_npu.profiler: {name} is {value!r} and should be a list of names; it is not used")
        return []

    @property
    def with_gc(self) -> bool:
        """Whether pauses of Python's garbage collector are recorded."""
        return self._gc_detect_threshold is not None

    @property
    def gc_detect_threshold(self) -> float | None:
        """Milliseconds from which on a pause of the garbage collector is recorded; None: none is."""
        return self._gc_detect_threshold

    @property
    def host_sys(self) -> list[str]:
        return self._host_sys

    @property
    def export_type(self) -> list[str]:
        return self._export_type

    @property
    def keeps_trace(self) -> bool:
        """data_simplification=False: PyTorch's own trace stays in the folder, too."""
        return not self._data_simplification

    @property
    def tx_enabled(self) -> bool:
        return self._mstx

    @property
    def level(self) -> str:
        return self._profiler_level

    def takes_domain(self, domain: str) -> bool:
        """Whether ranges of an mstx domain belong into the trace."""
        if self._mstx_domain_include:
            return domain in self._mstx_domain_include
        return domain not in self._mstx_domain_exclude

    def described(self) -> dict[str, Any]:
        """For profiler_info.json."""
        return dict(vars(self))
