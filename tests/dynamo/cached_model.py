"""A model with a method that cache_compile keeps, and what its tests ask of it."""

from __future__ import annotations

import warnings

import torch
from torch._dynamo.utils import counters

DEVICE = "npu"
inference = torch.npu.npugraph_ex.inference


class Model(torch.nn.Module):
    scale = 3

    def __init__(self, folder, width=4, **settings):
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(width, 2)
        self.bonus = 1.0
        self.register_buffer("seen", torch.zeros(8, 2))
        self.cached = inference.cache_compile(self.step, cache_dir=str(folder), **settings)

    def step(self, x, caches):
        y = self.linear(x["data"]) * self.bonus + self.scale
        caches[0].add_(1)
        self.seen[: y.shape[0]].copy_(y)
        return {"y": y, "cache": caches[0], "more": (y.sum(), None, "text")}


def arguments(rows=3, width=4):
    return {"data": torch.arange(rows * width, device=DEVICE).float().view(rows, width)}, [
        torch.zeros(2, device=DEVICE)
    ]


def file_of(folder):
    (path,) = folder.rglob("compiled_module")
    return path


def run(model, rows=3, width=4):
    """Calls the cached method three times, against eager; returns what was said and how often Dynamo traced."""
    torch._dynamo.reset()
    counters.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            x, caches = arguments(rows, width)
            result = model.cached(x, caches)
            wanted = torch.nn.functional.linear(x["data"], model.linear.weight, model.linear.bias) * model.bonus + 3
            torch.testing.assert_close(result["y"], wanted.detach())
            torch.testing.assert_close(model.seen[:rows], wanted.detach())
            assert not result["y"].requires_grad and result["cache"] is caches[0] and caches[0].tolist() == [1.0, 1.0]
            torch.testing.assert_close(result["more"][0], wanted.detach().sum())
            assert result["more"][1:] == (None, "text")
    said = [str(w.message) for w in caught if "cache_compile(step)" in str(w.message)]
    return said, counters["stats"]["unique_graphs"]


def fresh(folder, **settings):
    return Model(folder, **settings).npu()
