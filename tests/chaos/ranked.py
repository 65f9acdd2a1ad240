"""Programs of several ranks: how one is drawn from a seed, and what it computes, where one process plays all ranks on
CPU tensors. Every rank draws the same program, so all call the same things in the same order.
"""

from __future__ import annotations

import random
from itertools import combinations

import torch

from tests.chaos.program import MODULUS

LENGTHS = (12, 1200, 240_000)  # multiples of 1 to 4 ranks
SLOTS = 4  # buffers of each length on each rank
STREAMS = 3
KINDS = (
    ("kernel", 30), ("all_reduce", 12), ("broadcast", 6), ("all_gather", 5), ("reduce_scatter", 5), ("all_to_all", 5),
    ("reduce", 3), ("gather", 3), ("scatter", 3), ("all_gather_list", 3), ("reduce_scatter_list", 3),
    ("all_to_all_list", 3),
    ("burst", 6), ("coalesced", 5), ("batch", 8), ("message", 5), ("barrier", 1), ("check", 4), ("copies", 4),
    ("temporary", 6), ("capture", 3), ("replay", 8), ("abort", 0.3),
)  # fmt: skip


def groups_of(size: int) -> list[tuple[int, ...]]:
    """The world first, then every group of two and more ranks."""
    world = tuple(range(size))
    return [world, *(g for n in range(2, size) for g in combinations(world, n))]


class Ranked:
    """A program: its steps, and a text for a report."""

    def __init__(self, seed: int, size: int, steps: list[dict]):
        self.seed, self.size, self.steps = seed, size, steps

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.size} ranks", *(f"  {i}. {s}" for i, s in enumerate(self.steps))])


def draw(seed: int, size: int) -> Ranked:
    r = random.Random(seed * 8 + size)
    names, weights = zip(*KINDS, strict=True)
    groups = groups_of(size)
    steps, captured = [], []
    for _ in range(r.randint(4, 40)):
        kind = r.choices(names, weights)[0]
        if size == 1 and kind in ("batch", "message"):
            continue
        length = r.choices(range(len(LENGTHS)), (4, 4, 1))[0]
        slots = r.sample(range(SLOTS), SLOTS)
        step = {
            "kind": kind,
            "length": length,
            "slots": slots,
            "stream": r.randrange(STREAMS),
            "k": r.randrange(1, MODULUS),
        }
        step |= {
            "group": r.randrange(len(groups)),
            "other": r.randrange(STREAMS),
            "op": r.choice(("SUM", "MAX", "MIN")),
        }
        step["root"] = r.choice(groups[step["group"]])
        if kind == "capture":
            if len(captured) == 3:
                continue
            step |= {"graph": len(captured), "stream": r.randrange(1, STREAMS), "async": r.random() < 0.5}
            captured.append(step)
        if kind == "replay":
            if not captured:
                continue
            graph = r.choice(captured)
            step |= {name: graph[name] for name in ("graph", "length", "slots", "group", "op")} | {"of": graph["k"]}
        if kind == "batch":
            pairs = [p for p in ((a, b) for a in range(size) for b in range(size) if a != b) if r.random() < 0.6]
            step["pairs"] = pairs or [(0, 1)]
        if kind == "message":
            step["pairs"] = [tuple(r.sample(range(size), 2))]
        steps.append(step)
    return Ranked(seed, size, steps)


def initial(rank: int, length: int, slot: int) -> torch.Tensor:
    n = LENGTHS[length]
    return ((torch.arange(n, dtype=torch.int64) * (slot + 2) + rank * 7 + length) % MODULUS).float()


def kernel(step: dict, rank: int, of: list[torch.Tensor], k: int | None = None) -> None:
    a, b = of[step["slots"][0]], of[step["slots"][1]]
    a.mul_(k or step["k"]).add_(b).add_(rank).remainder_(MODULUS)


def reduced(op: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    stack = torch.stack(tensors)
    return {"SUM": lambda: stack.sum(0), "MAX": lambda: stack.amax(0), "MIN": lambda: stack.amin(0)}[op]()


def pieces(step: dict, tensor: torch.Tensor, n: int) -> list[torch.Tensor]:
    """What collectives of lists take: one stretch of memory, or its parts the other way round."""
    return list(tensor.view(n, -1))[:: -1 if step["k"] % 2 else 1]


class Oracle:
    """All ranks' buffers: state[rank][length][slot]."""

    def __init__(self, program: Ranked):
        self.size = program.size
        self.state = [[[initial(k, n, s) for s in range(SLOTS)] for n in range(len(LENGTHS))] for k in range(self.size)]

    def step(self, s: dict) -> None:
        members = groups_of(self.size)[s["group"]]
        of = [rank[s["length"]] for rank in self.state]
        first, second, third = s["slots"][:3]
        n = len(members)
        match s["kind"]:
            case "kernel":
                for rank in range(self.size):
                    kernel(s, rank, of[rank])
            case "all_reduce":
                self.all_reduce(s["op"], of, members, first)
            case "replay":
                for m in members:
                    kernel(s, m, of[m], s["of"])
                self.all_reduce(s["op"], of, members, first)
            case "copies":
                for m in members:
                    of[m][first].copy_(of[m][second])
                    of[m][third].add_(s["k"]).remainder_(MODULUS)
            case "temporary":
                total = reduced(s["op"], [of[m][first] + s["k"] for m in members]) % MODULUS
                for m in members:
                    of[m][second].add_(total).remainder_(MODULUS)
            case "burst" | "coalesced":
                for slot in s["slots"][:3]:
                    self.all_reduce(s["op"], of, members, slot)
            case "broadcast":
                for m in members:
                    of[m][first].copy_(of[s["root"]][first])
            case "all_gather":
                parts = torch.cat([of[m][second][: len(of[m][first]) // n] for m in members])
                for m in members:
                    of[m][first][: len(parts)] = parts
            case "reduce_scatter":
                part = len(of[0][first]) // n
                total = reduced(s["op"], [of[m][second][: part * n] for m in members])
                for i, m in enumerate(members):
                    of[m][first][:part] = total[i * part : (i + 1) * part] % MODULUS
            case "all_to_all":
                part = len(of[0][first]) // n
                sent = [of[m][second][: part * n].view(n, part).clone() for m in members]
                for i, m in enumerate(members):
                    of[m][first][: part * n] = torch.cat([sent[j][i] for j in range(n)])
            case "reduce":
                of[s["root"]][first].copy_(reduced(s["op"], [of[m][first] for m in members]) % MODULUS)
            case "gather":
                self.gather(s, of, members, s["root"])
            case "all_gather_list":
                for m in members:
                    self.gather(s, of, members, m)
            case "scatter":
                for m, piece in zip(members, pieces(s, of[s["root"]][second], n), strict=True):
                    of[m][first][: len(piece)] = piece
            case "reduce_scatter_list":
                for i, m in enumerate(members):
                    total = reduced(s["op"], [pieces(s, of[j][second], n)[i] for j in members])
                    of[m][first][: len(total)] = total % MODULUS
            case "all_to_all_list":
                for i, m in enumerate(members):
                    for j, piece in zip(members, pieces(s, of[m][first], n), strict=True):
                        piece.copy_(pieces(s, of[j][second], n)[i])
            case "batch" | "message":
                # All of `first`; each pair has its own part of `second`.
                part = LENGTHS[s["length"]] // self.size
                for a, b in s["pairs"]:
                    of[b][second][a * part : (a + 1) * part] = of[a][first][b * part : (b + 1) * part]

    @staticmethod
    def gather(s: dict, of: list, members: tuple, to: int) -> None:
        first, second = s["slots"][:2]
        for m, piece in zip(members, pieces(s, of[to][first], len(members)), strict=True):
            piece.copy_(of[m][second][: len(piece)])

    @staticmethod
    def all_reduce(op: str, of: list, members: tuple, slot: int) -> None:
        total = reduced(op, [of[m][slot] for m in members]) % MODULUS
        for m in members:
            of[m][slot].copy_(total)
