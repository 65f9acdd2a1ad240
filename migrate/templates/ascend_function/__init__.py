"""Equivalents of PyTorch APIs an NPU does not have: same arguments, same results, made of operators it has.

Written by pytorch_gpu2npu -s. The folder this package lies in must be on PYTHONPATH (for a script in it, it is).
"""

from .comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter
from .functional import (
    adaptive_max_pool1d,
    clip_grad_norm,
    fftfreq,
    fftshift,
    heaviside,
    ifftshift,
    max_pool1d,
    multilabel_soft_margin_loss,
    pdist,
    rfftfreq,
    std_mean,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
    unique_consecutive,
    var_mean,
)
from .ranges import mark, named_range, range_end, range_pop, range_push, range_start

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("comm", "functional", "ranges")]
