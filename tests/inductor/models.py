"""A model that is packaged by AOTInductor, and how the tests package one."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch
from torch import nn

QUICK = {"cpp_cache_precompile_headers": False, "aot_inductor.precompile_headers": False}


def packaged(model: nn.Module, args: tuple, path: Path, shapes: tuple | None = None) -> str:
    with torch.no_grad():
        program = torch.export.export(model, args, dynamic_shapes=shapes)
        settings = {**QUICK, "aot_inductor.compile_wrapper_opt_level": "O0"}
        return torch._inductor.aoti_compile_and_package(
            program, package_path=str(path / "model.pt2"), inductor_configs=settings
        )


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 12))
        self.register_buffer("total", torch.zeros(12))
        self.host = torch.tensor(3.0)  # a constant that stays on the CPU

    def forward(self, x):
        y = self.layers(x) * self.host
        self.total.add_(y.mean(0))
        return y, self.total + 1


FOLDER = tempfile.TemporaryDirectory(prefix="anycend-inductor-")  # what is made once a process


@functools.cache
def perceptron() -> tuple[str, dict[str, torch.Tensor]]:
    """A package of it on the npu, for 2 to 1000 rows, and the weights that it was made with."""
    torch.manual_seed(0)
    model, rows = Perceptron().npu().eval(), torch.export.Dim("rows", min=2, max=1000)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    return packaged(model, (torch.randn(4, 8).npu(),), Path(FOLDER.name), ({0: rows},)), weights
