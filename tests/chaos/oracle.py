"""What a program computes: its steps on CPU tensors, one after another. The kernels are written once, for both
devices.
"""

from __future__ import annotations

from functools import cache

import torch

from tests.chaos.program import MODULUS, SIDES, Program


@cache
def values(size: str, dtype: str, number: int) -> torch.Tensor:
    n = SIDES[size]
    numbers = (torch.arange(n * n, dtype=torch.int32) * (number + 3) + number) % MODULUS
    return numbers.to(getattr(torch, dtype)).reshape(n, n)


def initial(size: str, dtype: str, number: int, device: str = "cpu") -> torch.Tensor:
    return values(size, dtype, number).clone() if device == "cpu" else values(size, dtype, number).to(device)


def apply(kernel: dict, buffers: list[torch.Tensor]) -> None:
    """Runs a kernel of a program on whatever device the buffers are on."""
    to = buffers[kernel["to"]]
    of = [buffers[i] for i in kernel["of"]]
    k = kernel["k"]
    match kernel["op"]:
        case "fill":
            to.fill_(k)
        case "scale":
            to.mul_(k).remainder_(MODULUS)
        case "flip":
            to.copy_(to.flip(0))
        case "roll":
            to.copy_(to.roll(k, 1))
        case "cumsum":
            to.copy_(to.cumsum(1).remainder_(MODULUS))
        case "sort":
            to.copy_(to.sort(1).values)
        case "transpose":
            to.copy_(to.t().clone())
        case "add":
            to.add_(of[0]).remainder_(MODULUS)
        case "copy":
            to.copy_(of[0])
        case "where":
            to.copy_(torch.where(of[0] > k, of[0], to))
        case "gather":
            to.copy_(to.gather(1, of[0].long().remainder(to.shape[1])))
        case "addcmul":
            to.addcmul_(of[0], of[1]).remainder_(MODULUS)
        case "mm":
            to.copy_(torch.mm(of[0], of[1]).remainder_(MODULUS))


class Oracle:
    def __init__(self, program: Program):
        self.program = program
        self.buffers = [initial(b.size, b.dtype, i) for i, b in enumerate(program.buffers)]
        self.hosts = [initial(h.size, h.dtype, 50 + i) for i, h in enumerate(program.hosts)]
        self.graphs: dict[int, dict] = {}
        self.checks: list[torch.Tensor] = []

    def run(self) -> Oracle:
        for step in self.program.steps:
            self.step(step)
        return self

    def step(self, s: dict) -> None:
        b = self.buffers
        match s["kind"]:
            case "kernel":
                apply(s, b)
            case "host_to_device":
                b[s["buffer"]].copy_(self.hosts[s["host"]])
            case "device_to_host":
                self.hosts[s["host"]].copy_(b[s["buffer"]])
            case "host_write":
                self.hosts[s["host"]].fill_(s["k"])
            case "across":
                b[s["to"]].copy_(b[s["of"]])
            case "temporary":
                for i in (s["to"], s["also"]):
                    b[i].add_(s["k"]).remainder_(MODULUS)
            case "graph":
                self.graphs[s["graph"]] = s
            case "replay":
                graph = self.graphs[s["graph"]]
                for kernel in graph["body"]:
                    apply(kernel, b)
                b[graph["to"]].add_(graph["k"]).remainder_(MODULUS)
            case "check":
                self.checks.append(b[s["buffer"]].clone())
            case "abort":
                b[s["to"]].zero_()
