"""Calls with indices and labels that no tensor has: prints each before it is made, so that the last line names what
ended the process, and what became of it. `python -m tests.ops.hostile`; test_hostile.py runs it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

A = torch.ops.aten
ERRORS = RuntimeError, IndexError, ValueError, TypeError, OverflowError
VALUES = [-1, -5, 2**31, 2**40, 2**62, -(2**63)]


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, device="npu")


def full(value: int, *sizes: int) -> torch.Tensor:
    return torch.full(sizes, value, device="npu", dtype=torch.int64)


def last(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous(memory_format=torch.channels_last)


WINDOW = [2, 2], [2, 2], [0, 0], [1, 1], False
WINDOW3 = [2] * 3, [2] * 3, [0] * 3, [1] * 3, False
CALLS = {
    "embedding": lambda v: F.embedding(full(v, 2), ones(4, 3)),
    "embedding, renormalized": lambda v: F.embedding(full(v, 2), ones(4, 3), max_norm=1.0),
    "embedding_bag": lambda v: F.embedding_bag(full(v, 2, 2), ones(4, 3)),
    "embedding_dense_backward": lambda v: A.embedding_dense_backward(ones(2, 3), full(v, 2), 10, -1, False),
    "embedding_dense_backward, scaled": lambda v: A.embedding_dense_backward(ones(2, 3), full(v, 2), 10, -1, True),
    "max_unpool1d": lambda v: F.max_unpool1d(ones(1, 1, 1), full(v, 1, 1, 1), 2),
    "max_unpool2d": lambda v: F.max_unpool2d(ones(1, 1, 1, 1), full(v, 1, 1, 1, 1), 2),
    "max_unpool3d": lambda v: F.max_unpool3d(ones(1, 1, 1, 1, 1), full(v, 1, 1, 1, 1, 1), 2),
    "max_pool2d backward": lambda v: A.max_pool2d_with_indices_backward(
        ones(1, 1, 1, 1), ones(1, 1, 2, 2), *WINDOW, full(v, 1, 1, 1, 1)
    ),
    "max_pool2d backward, channels last": lambda v: A.max_pool2d_with_indices_backward(
        last(ones(1, 2, 1, 1)), last(ones(1, 2, 2, 2)), *WINDOW, full(v, 1, 2, 1, 1)
    ),
    "max_pool3d backward": lambda v: A.max_pool3d_with_indices_backward(
        ones(1, 1, 1, 1, 1), ones(1, 1, 2, 2, 2), *WINDOW3, full(v, 1, 1, 1, 1, 1)
    ),
    "adaptive_max_pool2d backward": lambda v: A.adaptive_max_pool2d_backward(
        ones(1, 1, 1, 1), ones(1, 1, 2, 2), full(v, 1, 1, 1, 1)
    ),
    "adaptive_max_pool3d backward": lambda v: A.adaptive_max_pool3d_backward(
        ones(1, 1, 1, 1, 1), ones(1, 1, 2, 2, 2), full(v, 1, 1, 1, 1, 1)
    ),
    "take": lambda v: torch.take(ones(4, 3), full(v, 2)),
    "put": lambda v: ones(4, 3).put_(full(v, 2), ones(2)),
    "gather": lambda v: ones(4, 3).gather(0, full(v, 2, 3)),
    "scatter": lambda v: ones(4, 3).scatter_(0, full(v, 2, 3), 1.0),
    "scatter_add": lambda v: ones(4, 3).scatter_add_(0, full(v, 2, 3), ones(2, 3)),
    "scatter_reduce": lambda v: ones(4, 3).scatter_reduce_(0, full(v, 2, 3), ones(2, 3), "prod"),
    "index_select": lambda v: ones(4, 3).index_select(0, full(v, 2)),
    "index_add": lambda v: ones(4, 3).index_add_(0, full(v, 2), ones(2, 3)),
    "index_copy": lambda v: ones(4, 3).index_copy_(0, full(v, 2), ones(2, 3)),
    "index_fill": lambda v: ones(4, 3).index_fill_(0, full(v, 2), 1.0),
    "index_reduce": lambda v: ones(4, 3).index_reduce_(0, full(v, 2), ones(2, 3), "prod"),
    "index": lambda v: ones(4, 3)[full(v, 2)],
    "index_put": lambda v: ones(4, 3).index_put_((full(v, 2),), ones(3)),
    "index_put, summed": lambda v: ones(4, 3).index_put_((full(v, 2),), ones(3), accumulate=True),
    "nll_loss": lambda v: F.nll_loss(ones(4, 3), full(v, 4)),
    "nll_loss of images": lambda v: F.nll_loss(ones(1, 3, 2, 2), full(v, 1, 2, 2)),
    "nll_loss backward": lambda v: A.nll_loss_backward(ones(), ones(4, 3), full(v, 4), None, 1, -100, ones()),
    "cross_entropy": lambda v: F.cross_entropy(ones(4, 3), full(v, 4), label_smoothing=0.1),
    "multi_margin_loss": lambda v: F.multi_margin_loss(ones(4, 3), full(v, 4)),
    "multilabel_margin_loss": lambda v: F.multilabel_margin_loss(ones(4, 3), full(v, 4, 3)),
    "one_hot": lambda v: F.one_hot(full(v, 2), 3),
    "ctc_loss": lambda v: F.ctc_loss(ones(4, 1, 3).log_softmax(-1), full(v, 1, 2), (4,), (2,)),
    "ctc_loss, lengths": lambda v: F.ctc_loss(ones(4, 1, 3).log_softmax(-1), full(1, 1, 2), (4,), (v,)),
    "ctc_loss, blank": lambda v: F.ctc_loss(ones(4, 1, 3).log_softmax(-1), full(1, 1, 2), (4,), (2,), blank=v),
    "lu_solve": lambda v: torch.linalg.lu_solve(torch.eye(3, device="npu"), full(v, 3).int(), ones(3, 3)),
    "lu_unpack": lambda v: torch.lu_unpack(torch.eye(3, device="npu"), full(v, 3).int()),
    "fold": lambda v: F.fold(ones(1, 4, 9), (4, 4), v),
    "unfold": lambda v: F.unfold(ones(1, 4, 9, 9), v),
}


def outcome(call: Callable[[int], object], value: int) -> str:
    """Of a call and of what it leaves to the stream, whose error is taken: the next call finds none."""
    try:
        call(value)
        torch.npu.synchronize()
    except ERRORS:
        try:
            torch.npu.synchronize()
        except torch.AcceleratorError:
            pass
        return "refused"
    return "taken"


if __name__ == "__main__":
    for name, call in CALLS.items():
        for value in VALUES:
            print(f"{name} {value}", end=" ", flush=True)
            print(outcome(call, value), flush=True)
            assert ones(2).sum().item() == 2  # no error is left
    print("all", flush=True)
