"""What a replay through torch.compile costs: against eager, and against a bare replay of the same work.

    python bench/graphs.py [--rounds 60] [--only gpt] [--backends npugraphs,npugraph_ex,reduce-overhead]

Inference of small models without gradients, and training steps (forward and backward). A bare replay is torch.npu.graph
around the model, with one copy of the argument before it. Times include what the device does; nothing is asserted.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

import torch  # noqa: E402

from bench import timing  # noqa: E402
from bench.models import GPT, LSTM, QuickStartCNN  # noqa: E402

npu = torch.npu


def chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(50):
        x = (x * 1.01 + 0.5).relu()
    return x


def models() -> dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]]:
    """Name → a function on the npu and its argument."""
    found: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
        "150 operators": (chain, torch.randn(64, device="npu")),
        "perceptron, 4 x 16": (
            torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu(),
            torch.randn(4, 16, device="npu"),
        ),
    }
    found["CNN, 4 images"] = QuickStartCNN().npu(), torch.randn(4, 1, 28, 28, device="npu")
    found["GPT, 1 x 16 tokens"] = GPT(width=64, heads=4).npu(), torch.randint(0, 512, (1, 16), device="npu")
    found["LSTM, 4 x 16 x 64"] = LSTM().npu(), torch.randn(4, 16, 64, device="npu")
    return found


def compiled(function: Callable[..., torch.Tensor], backend: str) -> Callable[..., torch.Tensor]:
    if backend == "reduce-overhead":
        return torch.compile(function, mode=backend)
    return torch.compile(function, backend=backend)


def bare(function: Callable[..., torch.Tensor], x: torch.Tensor) -> Callable[[], torch.Tensor]:
    static, graph = x.clone(), npu.NPUGraph()
    function(static)
    with npu.graph(graph):
        result = function(static)

    def run() -> torch.Tensor:
        static.copy_(x)
        graph.replay()
        return result

    return run


def training(function: Callable[..., torch.Tensor], x: torch.Tensor) -> Callable[[], None]:
    parameters = [p for p in getattr(function, "parameters", list)() if p.requires_grad]

    def run() -> None:
        for parameter in parameters:
            parameter.grad = None
        function(x).float().square().mean().backward()

    return run


def row(name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> str:
    """Short blocks of both in turns: a long one would be interrupted more often on a busy machine. timing.compare's
    other side is the CPU, which it does not wait for."""
    for _ in range(3):
        ours(), theirs()
    repeat = 5 if timing.block(theirs, npu.synchronize, 1, wait=True) < 0.001 else 1
    rounds = rounds if repeat > 1 else max(5, rounds // 5)
    pairs = [
        tuple(timing.block(function, npu.synchronize, repeat, wait=True) for function in (ours, theirs))
        for _ in range(rounds)
    ]
    mine, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    return f"{name:46}{mine * 1e6:11.0f}{other * 1e6:11.0f}{statistics.median(a / b for a, b in pairs):9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--backends", default="npugraphs,npugraph_ex")
    parser.add_argument("--threads", type=int, default=1, help="of ATen; more wait for each other on a busy machine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch._dynamo.config.allow_rnn = True
    print(f"{'µs':46}{'ours':>11}{'theirs':>11}{'ratio':>9}")
    for name, (function, x) in models().items():
        if not re.search(options.only, name, re.I):
            continue
        if isinstance(function, torch.nn.Module):
            function.eval()
        for backend in options.backends.split(","):
            torch._dynamo.reset()
            step = compiled(function, backend)
            with torch.no_grad():
                ours, eager, replay = partial(step, x), partial(function, x), bare(function, x)
                print(row(f"{name}: {backend} / eager", ours, eager, options.rounds))
                print(row(f"{name}: {backend} / bare replay", ours, replay, options.rounds), flush=True)
            if isinstance(function, torch.nn.Module):
                torch._dynamo.reset()
                function.train()
                learning = compiled(function, backend)
                learning.parameters = function.parameters
                ours, eager = training(learning, x), training(function, x)
                print(row(f"{name}, training: {backend} / eager", ours, eager, options.rounds), flush=True)
                function.eval()


if __name__ == "__main__":
    main()
