"""Programs for any torch_npu: each trains or computes on the NPU and on the CPU and says how far apart they are.

    python -m tests.conformance.programs [name ...]      one JSON line a program: {"program": …, "difference": …};
                                                         ends with status 3 after the first that fails

A program returns the largest difference, relative to the CPU's values (or to a tenth of the largest, near zero), or
raises. It uses public names of torch and torch_npu only.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from bench.models import GPT, LSTM, MLP, QuickStartCNN, ResNet18, images, text, token_loss
from tests.conformance.ending import settle

PROGRAMS: dict[str, tuple[float, Callable[[], float]]] = {}


def program(allowed: float) -> Callable:
    """The largest difference that is right."""

    def enter(function: Callable[[], float]) -> Callable[[], float]:
        PROGRAMS[function.__name__] = (allowed, function)
        return function

    return enter


def apart(actual: torch.Tensor, expected: torch.Tensor) -> float:
    actual, expected = actual.detach().cpu().double(), expected.detach().cpu().double()
    scale = expected.abs().clamp(min=max(0.1 * expected.abs().max().item(), 1e-12))
    return ((actual - expected).abs() / scale).max().item()


def losses(model: nn.Module, batch: Callable, loss: Callable, optimizer: Callable, device: str,
           steps: int, dtype: torch.dtype | None) -> torch.Tensor:  # fmt: skip
    model = model.to(device)
    step = optimizer(model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16, init_scale=256.0)
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(steps):
        inputs, targets = (x.to(device) for x in batch(generator))
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            value = loss(model(inputs), targets)
        step.zero_grad()
        scaler.scale(value).backward()
        scaler.step(step)
        scaler.update()
        found.append(value.detach().float())
    return torch.stack(found).cpu()


def train(make: Callable[[], nn.Module], batch: Callable, optimizer: Callable, *, loss: Callable = F.cross_entropy,
          steps: int = 8, dtype: torch.dtype | None = None, cpu_dtype: torch.dtype | None = None) -> float:  # fmt: skip
    torch.manual_seed(0)
    model = make()
    expected = losses(copy.deepcopy(model), batch, loss, optimizer, "cpu", steps, cpu_dtype)
    actual = losses(model, batch, loss, optimizer, "npu", steps, dtype)
    if not actual[-1] < actual[0]:
        raise AssertionError(f"the loss does not fall: {actual.tolist()}")
    return apart(actual, expected)


def sgd(**options: object) -> Callable:
    return lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, **options)


def adamw(**options: object) -> Callable:
    return lambda parameters: torch.optim.AdamW(parameters, lr=3e-3, **options)


@program(1e-4)
def cnn() -> float:
    return train(QuickStartCNN, images(16, 1, 28, 28), sgd())


@program(0.05)
def cnn_amp_fp16() -> float:
    return train(QuickStartCNN, images(16, 1, 28, 28), sgd(), dtype=torch.float16)


@program(0.05)
def cnn_amp_bf16() -> float:
    bf16 = torch.bfloat16
    return train(QuickStartCNN, images(16, 1, 28, 28), sgd(), dtype=bf16, cpu_dtype=bf16)


@program(1e-4)
def mlp_sgd() -> float:
    return train(lambda: MLP(64), images(16, 1, 28, 28), sgd(foreach=False))


@program(1e-4)
def mlp_sgd_foreach() -> float:
    return train(lambda: MLP(64), images(16, 1, 28, 28), sgd(foreach=True))


@program(1e-4)
def mlp_adamw() -> float:
    return train(lambda: MLP(64), images(16, 1, 28, 28), adamw(foreach=False))


@program(1e-4)
def mlp_adamw_foreach() -> float:
    return train(lambda: MLP(64), images(16, 1, 28, 28), adamw(foreach=True))


@program(1e-4)
def mlp_adamw_fused() -> float:
    return train(lambda: MLP(64), images(16, 1, 28, 28), adamw(fused=True))


@program(1e-3)
def resnet18() -> float:
    return train(ResNet18, images(10, 3, 32, 32), sgd(), steps=3)


@program(1e-4)
def gpt2_sdpa() -> float:
    return train(lambda: GPT(64, 64, 32, 2, 4), text(8, 32, 64), adamw(), loss=token_loss)


@program(0.05)
def gpt2_sdpa_bf16() -> float:
    bf16 = torch.bfloat16
    return train(lambda: GPT(64, 64, 32, 2, 4), text(8, 32, 64), adamw(), loss=token_loss, dtype=bf16, cpu_dtype=bf16)


@program(1e-4)
def lstm() -> float:
    return train(lambda: LSTM(32, 48), images(16, 12, 32), adamw())


def recurrent(host: nn.Module) -> float:
    """Results and gradients of a sequence."""
    device, x = copy.deepcopy(host).npu(), torch.randn(5, 3, 8)
    a, b = host(x)[0], device(x.npu())[0]
    a.square().sum().backward(), b.square().sum().backward()
    grads = zip(device.parameters(), host.parameters(), strict=True)
    return max(apart(b, a), *(apart(p.grad, q.grad) for p, q in grads))


@program(1e-4)
def lstm_two_ways() -> float:
    torch.manual_seed(0)
    return recurrent(nn.LSTM(8, 12, 2, bidirectional=True))


@program(1e-4)
def gru() -> float:
    torch.manual_seed(0)
    return max(recurrent(nn.GRU(8, 12, 2)), recurrent(nn.GRU(8, 12, 2, bidirectional=True)))


@program(1e-5)
def batch_norm() -> float:
    torch.manual_seed(0)
    host = nn.BatchNorm2d(4)
    device = copy.deepcopy(host).npu()
    found = []
    for _ in range(3):
        x = torch.randn(6, 4, 5, 5)
        a, b = x.clone().requires_grad_(), x.npu().requires_grad_()
        out_a, out_b = host(a), device(b)
        (out_a * out_a.detach().sin()).sum().backward()
        (out_b * out_b.detach().sin()).sum().backward()
        found += [apart(out_b, out_a), apart(b.grad, a.grad), apart(device.weight.grad, host.weight.grad)]
        found += [apart(device.running_mean, host.running_mean), apart(device.running_var, host.running_var)]
    host.eval(), device.eval()
    return max(*found, apart(device(x.npu()), host(x)))


@program(1e-5)
def embedding() -> float:
    torch.manual_seed(0)
    host = nn.Embedding(20, 6, padding_idx=3)
    device = copy.deepcopy(host).npu()
    ids = torch.randint(20, (4, 9))
    host(ids).square().sum().backward()
    device(ids.npu()).square().sum().backward()
    return max(apart(device(ids.npu()), host(ids)), apart(device.weight.grad, host.weight.grad))


@program(0.02)
def dropout() -> float:
    """The kept share, the scale of what is kept, the same mask backward, and the same numbers for the same seed."""
    x = torch.ones(200_000, device="npu", requires_grad=True)
    torch.npu.manual_seed(5)
    y = F.dropout(x, 0.3)
    y.sum().backward()
    torch.npu.manual_seed(5)
    if not torch.equal(y, F.dropout(x, 0.3)) or not torch.equal(y.detach(), x.grad):
        raise AssertionError("another mask for the same seed, or backward")
    if set(y.detach().cpu().unique().tolist()) - {0.0, 1 / torch.tensor(0.7).item()} and y.max().item() > 1.4286:
        raise AssertionError("what is kept is not scaled by 1 / (1 - p)")
    return abs((y != 0).float().mean().item() - 0.7)


@program(0.0)
def streams_and_events() -> float:
    """Work on two streams is ordered by events; the time between two events is positive."""
    a, b = torch.npu.Stream(), torch.npu.Stream()
    begin, end, ready = (torch.npu.Event(enable_timing=True) for _ in range(3))
    x = torch.ones(512, 512, device="npu")
    torch.npu.synchronize()
    begin.record()
    with torch.npu.stream(a):
        for _ in range(20):
            x = x * 1.0 + 1.0
        ready.record(a)
    with torch.npu.stream(b):
        b.wait_event(ready)
        y = x * 2
    b.synchronize()
    torch.npu.current_stream().wait_stream(b)
    end.record()
    end.synchronize()
    if not (ready.query() and begin.elapsed_time(end) > 0):
        raise AssertionError("events do not tell")
    return (y - 42).abs().max().item()


@program(0.0)
def memory_statistics() -> float:
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    block = torch.empty(8 << 20, dtype=torch.uint8, device="npu")
    used = torch.npu.memory_allocated() - before
    if not (8 << 20) <= used < (9 << 20):
        raise AssertionError(f"8 MiB are counted as {used} bytes")
    if torch.npu.memory_reserved() < used or torch.npu.max_memory_allocated() < used:
        raise AssertionError("reserved or peak is below what is allocated")
    free, total = torch.npu.mem_get_info()
    if not 0 < free <= total:
        raise AssertionError(f"mem_get_info: {free} of {total}")
    del block
    return float(torch.npu.memory_allocated() - before)


@program(0.0)
def out_of_memory() -> float:
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        return (torch.ones(3, device="npu") + 1 - 2).abs().max().item()
    raise AssertionError("2^50 bytes were allocated")


@program(0.0)
def pinned_copies() -> float:
    host = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    if not host.is_pinned():
        raise AssertionError("pin_memory did not pin")
    device = host.to("npu", non_blocking=True)
    back = (device * 2).to("cpu", non_blocking=True)
    torch.npu.synchronize()
    return (back - host * 2).abs().max().item()


@program(0.0)
def strided_copies() -> float:
    """Views with strides and offsets, across devices and dtypes."""
    x = torch.arange(4 * 6 * 5, dtype=torch.float32).reshape(4, 6, 5)
    y = x.npu()
    pairs = [(x[1:, ::2].transpose(0, 2), y[1:, ::2].transpose(0, 2)), (x[..., 3].to(torch.int64), y[..., 3].long())]
    y2, x2 = y.clone(), x.clone()
    y2[2:, :, 1::2], x2[2:, :, 1::2] = 7, 7
    pairs += [(x2, y2), (x.expand(2, 4, 6, 5)[1], y.expand(2, 4, 6, 5)[1]), (x.half(), y.half())]
    return max((a.float() - b.cpu().float()).abs().max().item() for a, b in pairs)


@program(1e-6)
def graph_replay() -> float:
    """A captured graph, replayed on new contents of its input."""
    weight, x = torch.randn(16, 16).npu(), torch.randn(8, 16).npu()
    warm = torch.npu.Stream()
    warm.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(warm):
        torch.relu(x @ weight)
    torch.npu.current_stream().wait_stream(warm)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch.relu(x @ weight) * 3
    fresh = torch.randn(8, 16)
    x.copy_(fresh)
    graph.replay()
    torch.npu.synchronize()
    return apart(y, torch.relu(fresh @ weight.cpu()) * 3)


@program(0.0)
def checkpoint_round_trip() -> float:
    import io

    model = MLP(8).npu()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, map_location="cpu", weights_only=True)
    return max((value.cpu() - loaded[name]).abs().max().item() for name, value in model.state_dict().items())


def main(names: list[str]) -> int:
    import torch_npu  # noqa: F401

    for name in names or PROGRAMS:
        allowed, function = PROGRAMS[name]
        line: dict[str, object] = {"program": name, "allowed": allowed}
        try:
            line["difference"] = function()
        except Exception:
            line["error"] = traceback.format_exc(limit=-3)[-1500:]
        print("RESULT " + json.dumps(line), flush=True)
        if "error" in line:
            return 3  # after an asynchronous error the vendor's queue may answer with old data: go on in a new process
    settle()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
