"""torch.npu.npugraph_ex: the vendor's names around backend="npugraph_ex".

    torch.compile(model, backend="npugraph_ex", options={"clone_input": False})
    compiler = torch.npu.npugraph_ex.compile_fx(options={...})       # as fw_compiler of a back end of one's own
    torch.npu.npugraph_ex.register_replacement(search, replace, example_inputs)

    step = torch.npu.npugraph_ex.inference.cache_compile(model.decode, cache_dir="cache")   # kept on disk

What it is not: the captures and replays (torch_npu.dynamo.replayed), or torchair, which belongs to the vendor's wheel.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch_npu.dynamo.npugraph_ex import inference, scope

__all__ = ["compile_fx", "inference", "register_replacement", "scope"]


def compile_fx(
    gm: Any = None, example_inputs: Sequence[Any] | None = None, options: dict[str, Any] | None = None
) -> Any:
    """A forward graph of ATen operators, captured and replayed: for `fw_compiler` of aot_module_simplified, with
    keep_inference_input_mutations=True where arguments are changed in place. Without a graph, such a compiler."""
    if gm is None:
        return functools.partial(compile_fx, options=options)
    from torch_npu.dynamo.npugraph_ex import compiler
    from torch_npu.dynamo.npugraph_ex.options import Options

    return compiler.compile_graph(gm, list(example_inputs or ()), Options.read(options), backward=False)


def register_replacement(
    search_fn: Any,
    replace_fn: Any,
    example_inputs: Any,
    trace_fn: Any = None,
    extra_check: Any = None,
    search_fn_pattern: Any = None,
    scalar_workaround: dict[str, float | int] | None = None,
    skip_duplicates: bool = False,
) -> None:
    """Wherever a graph that is compiled from now on has what `search_fn` traces to, `replace_fn` takes its place, as
    with torch._inductor.pattern_matcher.register_replacement; the option pattern_fusion_pass turns it off."""
    from torch_npu.dynamo.npugraph_ex import fusions

    settings = {"trace_fn": trace_fn, "extra_check": extra_check, "search_fn_pattern": search_fn_pattern}
    given = {name: value for name, value in settings.items() if value is not None}
    fusions.register(
        search_fn,
        replace_fn,
        example_inputs,
        scalar_workaround=scalar_workaround,
        skip_duplicates=skip_duplicates,
        **given,
    )
