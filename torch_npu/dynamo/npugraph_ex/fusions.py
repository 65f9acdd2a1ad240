"""Groups of operators for which the NPU has one: PyTorch's pattern matcher with the patterns of this process.

One pattern is built in, npu_add_rms_norm for an addition before npu_rms_norm; programs add theirs by
torch.npu.npugraph_ex.register_replacement. What it is not: the other rewritings (passes.py)."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor import pattern_matcher
from torch.fx import Graph

_patterns = pattern_matcher.PatternMatcherPass(pass_name="npugraph_ex")


def register(search_fn: Any, replace_fn: Any, example_inputs: Any, **settings: Any) -> None:
    trace = settings.pop("trace_fn", pattern_matcher.fwd_only)
    pattern_matcher.register_replacement(search_fn, replace_fn, list(example_inputs), trace, _patterns, **settings)


@functools.cache
def _built_in() -> None:
    norm, fused = torch.ops.npu.npu_rms_norm, torch.ops.npu.npu_add_rms_norm

    def search(x: Any, y: Any, gamma: Any, epsilon: float) -> Any:
        total = x + y
        return norm(total, gamma, epsilon)[0], total

    def replace(x: Any, y: Any, gamma: Any, epsilon: float) -> Any:
        result, _, total = fused(x, y, gamma, epsilon)
        return result, total

    def same_kind(match: Any) -> bool:
        x, y, gamma = (match.kwargs[name].meta["val"] for name in ("x", "y", "gamma"))
        return x.shape == y.shape and x.dtype == y.dtype == gamma.dtype

    example = [torch.empty(2, 4, device="npu"), torch.empty(2, 4, device="npu"), torch.empty(4, device="npu")]
    register(search, replace, example, scalar_workaround={"epsilon": 0.125}, extra_check=same_kind)


def apply(graph: Graph) -> None:
    _built_in()
    graph.eliminate_dead_code()
    _patterns.apply(graph)
    graph.eliminate_dead_code()
