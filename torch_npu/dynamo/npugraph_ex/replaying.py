"""A graph's function put behind Replayed as npugraph_ex's options say. Who uses it: compiler.py for what was just
traced, program.py for what was kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch_npu.dynamo import pool
from torch_npu.dynamo.lengths import Lengths
from torch_npu.dynamo.npugraph_ex.options import NAME, Options
from torch_npu.dynamo.replayed import Replayed, say


def replaying(
    plain: Callable[[list[Any]], Any],
    options: Options,
    *,
    device: int,
    lasting: Sequence[int],
    mutated: Collection[int],
    why_not: str | None = None,
    backward: bool = False,
    name: str = NAME,
    lengths: Lengths | None = None,
) -> Callable[[list[Any]], Any]:
    """`plain` takes a list, which it empties. `why_not`: why there can be no graph, which is said once."""
    if options.force_eager:
        return plain
    if why_not is not None:
        if not backward:  # its forward said it
            say(name, why_not)
        return plain
    return Replayed(
        plain,
        name=name,
        device=device,
        backward=backward,
        lasting=lasting,
        mutated=mutated,
        limit=options.capture_limit,
        pool=pool.of(device, options.use_graph_pool),
        mode=options.capture_error_mode,
        shared=options.reuse_graph_pool_in_same_fx,
        copied=options.clone_output,
        frozen=options.frozen_parameter,
        lengths=lengths,
    ).boxed()
