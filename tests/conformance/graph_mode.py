"""The wheel's graph mode (torchair) on the software NPU's graph engine: small models, each compared with eager.

python -m tests.conformance.graph_mode mlp bert     a line RESULT {"program", "difference" or "error", "nodes"} each
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Of a graph: what goes in and out, and no work.
BORDER = ("Const", "ConstPlaceHolder", "Data", "NetOutput", "RefData", "Variable")


class Loaded:
    """The graphs that torchair hands to the engine: how many nodes each has that compute, and their types."""

    def __init__(self) -> None:
        from torchair.ge._ge_graph import GeGraph

        self.nodes: list[int] = []
        self.types: set[str] = set()
        load = GeGraph.load

        def loading(graph, *arguments, **settings):
            types = [node.type for node in graph.op if node.type not in BORDER]
            self.nodes.append(len(types))
            self.types |= set(types)
            return load(graph, *arguments, **settings)

        GeGraph.load = loading

    def taken(self) -> dict[str, list]:
        """Since the last time."""
        found = {"nodes": self.nodes, "types": sorted(self.types)}
        self.nodes, self.types = [], set()
        return found


def compiled(model: Callable, dynamic: bool = False) -> Callable:
    import torchair

    config = torchair.CompilerConfig()
    config.mode.value = "max-autotune"
    return torch.compile(
        model, backend=torchair.get_npu_backend(compiler_config=config), dynamic=dynamic, fullgraph=True
    )


def worst(got: object, want: object) -> float:
    if isinstance(want, Tensor):
        assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape, got.dtype, want.dtype)
        return (got.double() - want.double()).abs().max().item() if want.numel() else 0.0
    return max((worst(a, b) for a, b in zip(got, want, strict=True)), default=0.0)


def compare(model: nn.Module | Callable, calls: Iterable[tuple], dynamic: bool = False) -> float:
    fast = compiled(model, dynamic)
    return max(worst(fast(*call), model(*call)) for call in calls)


def mlp() -> float:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).npu().eval()
    return compare(model, [(torch.randn(4, 16).npu(),) for _ in range(3)])


class Bert(nn.Module):
    """Two encoder layers of BERT, written out."""

    def __init__(self, hidden: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(100, hidden), nn.Embedding(64, hidden)
        self.norm = nn.LayerNorm(hidden)
        part = nn.Linear
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": part(hidden, 3 * hidden),
                    "out": part(hidden, hidden),
                    "up": part(hidden, 4 * hidden),
                    "down": part(4 * hidden, hidden),
                    "first": nn.LayerNorm(hidden),
                    "second": nn.LayerNorm(hidden),
                }
            )
            for _ in range(2)
        )
        self.pool, self.labels = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places(torch.arange(length, device=ids.device)))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            q, k, v = (
                part.view(batch, length, self.heads, -1).transpose(1, 2) for part in layer["qkv"](x).chunk(3, dim=-1)
            )
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1)
            x = layer["first"](x + layer["out"](mixed))
            x = layer["second"](x + layer["down"](F.gelu(layer["up"](x))))
        return self.labels(torch.tanh(self.pool(x[:, 0])))


def bert() -> float:
    ids = torch.randint(0, 100, (2, 12))
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return compare(Bert().npu().eval(), [(ids.npu(), mask.npu())] * 2)


class Block(nn.Module):
    def __init__(self, planes: int, out: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(planes, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.skip = nn.Sequential(nn.Conv2d(planes, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet() -> float:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8, 16, 2),
        Block(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return compare(model.npu().eval(), [(torch.randn(2, 3, 32, 32).npu(),) for _ in range(2)])


class Llama(nn.Module):
    """Two decoder layers with a cache of keys and values that is written in place."""

    def __init__(self, hidden: int = 32, heads: int = 4, longest: int = 16, fused: bool = False):
        super().__init__()
        self.heads, self.size, self.fused = heads, hidden // heads, fused
        self.words = nn.Embedding(64, hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict({n: nn.Linear(a, b, bias=False) for n, a, b in self.shapes(hidden)}) for _ in range(2)
        )
        self.norms = nn.ParameterList(torch.rand(hidden) + 0.5 for _ in range(5))
        self.register_buffer("rates", 1.0 / 10000.0 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.longest = longest

    @staticmethod
    def shapes(hidden: int) -> list[tuple[str, int, int]]:
        square = [(n, hidden, hidden) for n in ("q", "k", "v", "o")]
        return [*square, ("gate", hidden, 2 * hidden), ("up", hidden, 2 * hidden), ("down", 2 * hidden, hidden)]

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        if self.fused:
            return torch.ops.npu.npu_rms_norm(x, weight, 1e-6)[0]
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, ids: Tensor, places: Tensor, start: Tensor, caches: list[Tensor]) -> Tensor:
        import torch_npu

        batch, length = ids.shape
        angles = places[:, :, None].float() * self.rates
        angles = torch.cat((angles, angles), -1)[:, None]
        cos, sin = angles.cos(), angles.sin()
        x = self.words(ids)
        allowed = torch.arange(self.longest, device=ids.device)[None, None, None, :] <= places[:, None, :, None]
        for n, layer in enumerate(self.layers):
            y = self.norm(x, self.norms[2 * n])
            q, k, v = (layer[name](y).view(batch, length, self.heads, self.size).transpose(1, 2) for name in "qkv")
            keys, values = caches[2 * n], caches[2 * n + 1]
            torch_npu.scatter_update_(keys, start, self.turn(k, cos, sin), 2)
            torch_npu.scatter_update_(values, start, v, 2)
            scores = self.turn(q, cos, sin) @ keys.transpose(-1, -2) / math.sqrt(self.size)
            scores = torch.where(allowed, scores, torch.full_like(scores, -1e9))
            mixed = (scores.softmax(-1) @ values).transpose(1, 2).reshape(batch, length, -1)
            x = x + layer["o"](mixed)
            y = self.norm(x, self.norms[2 * n + 1])
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return (self.norm(x, self.norms[4])[:, -1] @ self.words.weight.t()).argmax(-1), x


def llama(fused: bool = False) -> float:
    """Prefill of four tokens and three steps of decoding, with a cache each for eager and compiled."""
    model = Llama(fused=fused).npu().eval()
    fast = compiled(model)
    caches = [[torch.zeros(2, 4, 16, 8).npu() for _ in range(4)] for _ in range(2)]
    ids, difference = torch.randint(0, 64, (2, 4)).npu(), 0.0
    start = 0
    for _ in range(4):
        length = ids.shape[1]
        places = torch.arange(start, start + length).expand(2, length).contiguous().npu()
        begin = torch.full((2,), start, dtype=torch.int64).npu()
        want, got = (f(ids, places, begin, kept) for f, kept in zip((model, fast), caches, strict=True))
        difference = max(difference, worst(got, want), worst(caches[1], caches[0]))
        ids, start = want[0][:, None], start + length
    return difference


def fused_llama() -> float:
    return llama(fused=True)


def dynamic_shapes() -> float:
    model = Bert().npu().eval()
    calls = []
    for batch, length in ((2, 12), (3, 7), (1, 20)):
        ids = torch.randint(0, 100, (batch, length)).npu()
        calls.append((ids, torch.ones(batch, length, dtype=torch.int64).npu()))
    return compare(model, calls, dynamic=True)


def in_place() -> float:
    """An input that the graph writes, and a result that is a view of an input."""

    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        before = state * 1.0
        state.add_(x)
        return before, x.view(-1)

    fast = compiled(step)
    states = [torch.ones(3, 4).npu() for _ in range(2)]
    difference = 0.0
    for _ in range(3):
        x = torch.randn(3, 4).npu()
        want, got = (f(state, x) for f, state in zip((step, fast), states, strict=True))
        difference = max(difference, worst(got, want), worst(states[1], states[0]))
    return difference


def copies() -> float:
    """A copy that is written leaves what it was made of alone; two results do not share memory."""
    import torch_npu

    def step(x: Tensor, start: Tensor, update: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mine = x.clone()
        torch_npu.scatter_update_(mine, start, update, 1)
        y = torch.relu(x)
        return mine, y, y.clone()

    x, update = torch.rand(2, 4, 3).npu(), torch.rand(2, 1, 3).npu()
    before, start = x.clone(), torch.tensor([1, 2]).npu()
    got, want = compiled(step)(x, start, update), step(x, start, update)
    difference = max(worst(got, want), worst(x, before))
    got[1].zero_()
    return max(difference, worst(got[2], want[2]))


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        import torchair

        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.folder = tempfile.mkdtemp()
        self.fast = torchair.inference.cache_compile(self.step, cache_dir=self.folder, dynamic=False)

    def step(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.fast(x)


def cache_compile() -> float:
    from pathlib import Path

    import torchair

    model = Cached().npu().eval()
    x = torch.randn(2, 8).npu()
    difference = worst(model(x), model.step(x))
    assert list(Path(model.folder).rglob("compiled_module")), "nothing was kept"
    model.fast = torchair.inference.cache_compile(model.step, cache_dir=model.folder, dynamic=False)  # from the file
    return max(difference, worst(model(x), model.step(x)))


def npu_backend() -> float:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).npu().eval()
    fast = torch.compile(model, backend="npu", dynamic=False)
    x = torch.randn(2, 8).npu()
    return worst(fast(x), model(x))


def frozen_parameters() -> float:
    import torchair

    config = torchair.CompilerConfig()
    config.experimental_config.frozen_parameter = True
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).npu().eval()
    fast = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config), dynamic=False)
    return max(worst(fast(x), model(x)) for x in (torch.randn(2, 8).npu() for _ in range(2)))


def dim_gears() -> float:
    import torchair

    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).npu().eval()
    fast, difference = compiled(model, dynamic=True), 0.0
    for rows in (2, 4, 2):
        x = torch.randn(rows, 8).npu()
        torchair.inference.set_dim_gears(x, dim_gears={0: [2, 4]})
        difference = max(difference, worst(fast(x), model(x)))
    return difference


def fused_operators() -> float:
    import torch_npu

    def step(q: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        mixed = torch_npu.npu_fused_infer_attention_score(q, q, q, num_heads=4, input_layout="BNSD", scale=0.25)[0]
        normed, _, summed = torch_npu.npu_add_rms_norm(mixed, q, weight)
        turned = torch_npu.npu_rotary_mul(normed, q[:1, :1], q[:1, 1:2])
        return torch_npu.npu_swiglu(turned, -1), summed

    return compare(step, [(torch.randn(1, 4, 5, 16).npu(), torch.rand(16).npu())])


def lookups() -> float:
    def step(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return x[i], x[:, i, i], x.index_select(1, i), x.masked_fill(x > 0, 1.0), *x.topk(2), x.cumsum(1)

    return compare(step, [(torch.randn(4, 5, 6).npu(), torch.tensor([3, 1]).npu())])


def export() -> float:
    """A graph kept in a file is one that can be read again."""
    from pathlib import Path

    import torchair

    folder = tempfile.mkdtemp()
    torchair.dynamo_export(
        torch.randn(2, 8).npu(), model=nn.Linear(8, 8).npu().eval(), export_path=folder, export_name="kept"
    )
    return 0.0 if b"MatMul" in (Path(folder) / "kept.air").read_bytes() else 1.0


def refused() -> float:
    """A type without a row: an error that names it; the device works afterwards."""
    x = torch.rand(4, 4).npu()
    try:
        compiled(lambda x: torch.sort(x)[0] + 1)(x)
    except Exception as error:
        print("REFUSED", str(error).replace("\n", " "))
    return worst(x + 1, (x.cpu() + 1).npu())


PROGRAMS = (
    mlp, bert, resnet, llama, fused_llama, dynamic_shapes, in_place, copies, cache_compile, npu_backend,
    frozen_parameters, dim_gears, fused_operators, lookups, export, refused,
)  # fmt: skip


def main() -> None:
    import torch_npu  # noqa: F401  makes torchair known

    torch.set_num_threads(1)
    loaded = Loaded()
    for program in PROGRAMS:
        if len(sys.argv) > 1 and program.__name__ not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        line = {"program": program.__name__}
        try:
            with torch.no_grad():
                line["difference"] = program()
        except Exception as error:
            line["error"] = f"{type(error).__name__}: {error}"[-1500:]
        print("RESULT " + json.dumps(line | loaded.taken()), flush=True)


if __name__ == "__main__":
    main()
