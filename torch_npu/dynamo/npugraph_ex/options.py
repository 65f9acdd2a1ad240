"""The options of npugraph_ex, by the vendor's names: what each asks for, and which of them are refused.

An option that is here has its effect (compiler.py says where); one that cannot be had is an error that names it, unless
its value asks for nothing. What it is not: the passes themselves."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any

NAME = 'torch.compile(backend="npugraph_ex")'

# Not to be had here, and why. Their default asks for nothing and is accepted.
REFUSED = {
    "static_kernel_compile": "compiling operators for one shape is the vendor's compiler's work",
    "disable_static_kernel_compile_cache": "there are no static kernels to cache",
    "super_kernel_optimize": "merging kernels is the vendor's compiler's work",
    "super_kernel_optimize_options": "merging kernels is the vendor's compiler's work",
    "super_kernel_debug_options": "merging kernels is the vendor's compiler's work",
    "deadlock_check": "a graph's order over several ranks is not checked",
    "force_recapture": "a graph is captured again by itself where an address that it was captured with changed",
    "record_statistics_debug_info": "no statistics are kept; torch.profiler shows what is replayed",
}
MODES = ("npugraph_ex", "reduce-overhead")
_GE = "which are the same (max-autotune is the graph engine's, which the vendor's own torch-npu has)"


@dataclasses.dataclass(frozen=True)
class Options:
    force_eager: bool = False  # the passes, no graph
    use_graph_pool: tuple[int, int] | None = None  # torch.npu.graph_pool_handle(), instead of the device's pool
    reuse_graph_pool_in_same_fx: bool = True  # False: a pool for each recording
    capture_limit: int = 64
    clone_input: bool = True  # False: arguments are read where they are; another address is another recording
    clone_output: bool = False  # True: outputs are copied at each call
    frozen_parameter: bool = False  # True: a parameter's address is taken once
    remove_noop_ops: bool = True
    remove_cat_ops: bool = True
    inplace_pass: bool = True
    input_inplace_pass: bool = True
    pattern_fusion_pass: bool = True
    post_grad_custom_pre_pass: Callable[..., Any] | None = None  # (module, inputs, these options)
    post_grad_custom_post_pass: Callable[..., Any] | None = None
    dump_tensor_data: bool = False  # each operator's output into a file; no graph
    data_dump_stage: str = "optimized"
    data_dump_dir: str = "./"
    capture_error_mode: str = "global"
    unsafe_skip_npugraph_capture_validation: bool = False  # True: no operator is refused before the capture
    mode: str = "npugraph_ex"

    @staticmethod
    def read(given: dict[str, Any] | None) -> Options:
        """ValueError for an option that does not exist or is refused, or whose value is not one."""
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{NAME}: options is a dictionary, not {given!r}")
        given = dict(given or {})
        for name, reason in REFUSED.items():
            if given.pop(name, None):
                raise ValueError(f"{NAME}: the option {name} is not implemented: {reason}; leave it out")
        known = {field.name: field for field in dataclasses.fields(Options)}
        for name, value in given.items():
            if name not in known:
                names = ", ".join(sorted(known))
                near = difflib.get_close_matches(name, known, 1)
                meant = f". Did you mean {near[0]}?" if near else ""
                raise ValueError(f"{NAME} has no option {name}; it has {names}{meant}")
            default = known[name].default
            if isinstance(default, bool) and (not isinstance(value, int) or value not in (False, True)):
                raise ValueError(f"{NAME}: the option {name} is True or False, not {value!r}")
        options = Options(**given)
        options._check()
        return options

    def _check(self) -> None:
        def refuse(name: str, what: str) -> None:
            raise ValueError(f"{NAME}: the option {name} is {what}, not {getattr(self, name)!r}")

        limit = self.capture_limit
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            refuse("capture_limit", "a positive number")
        pool = self.use_graph_pool
        if pool is not None and not (isinstance(pool, tuple) and len(pool) == 2):
            refuse("use_graph_pool", "what torch.npu.graph_pool_handle() returns")
        if self.capture_error_mode not in ("global", "thread_local", "relaxed"):
            refuse("capture_error_mode", "'global', 'thread_local' or 'relaxed'")
        if self.data_dump_stage not in ("original", "optimized"):
            refuse("data_dump_stage", "'original' or 'optimized'")
        folder = self.data_dump_dir
        if not isinstance(folder, str | os.PathLike) or (self.dump_tensor_data and not os.path.isdir(folder)):
            refuse("data_dump_dir", "a folder that exists")
        for name in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                refuse(name, "a function")
        if self.mode not in MODES:
            refuse("mode", " or ".join(map(repr, MODES)) + f", {_GE}")
