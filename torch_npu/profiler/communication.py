"""communication.json and communication_matrix.json: each collective's time and bytes, and the bytes of its links.

Used by profiles of this folder and msprof's. HCCL's records have a collective's start, end, count, type and
communicator. They do not split waiting from moving, and name no peer or root, so:
- Transit Time is the whole of a collective's time; Wait, Synchronization and Idle Time are 0;
- a link's bytes are those that the collective's definition moves between two ranks, see _LINK_BYTES. Broadcasts,
  reductions to one rank, scatters, all-to-alls and messages have no links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from . import events
from .events import Row

_P2P = ("hcom_send", "hcom_recv", "hcom_receive", "hcom_batchsendrecv")
# Bytes from one rank to each other, of a collective with that payload over n ranks.
_LINK_BYTES = {
    "hcom_allReduce_": lambda payload, n: 2 * payload / n,  # its share to the owner, the owner's result back
    "hcom_allGather_": lambda payload, n: payload,
    "hcom_reduceScatter_": lambda payload, n: payload,
}
_RATIOS = (("Wait Time Ratio", "Wait Time(ms)"), ("Synchronization Time Ratio", "Synchronization Time(ms)"))


def hashed(name: str) -> str:
    """A communicator's name as the vendor's files have it: two polynomial hashes of 32 bits, one behind the other."""
    high = low = 0
    for character in name:
        high = (high * 29 + ord(character)) & 0xFFFFFFFF
        low = (low * 131 + ord(character)) & 0xFFFFFFFF
    return str(high << 32 | low)


def operations(rows: dict[str, list[Row]]) -> Iterator[tuple[str, str, str, Row]]:
    """(step, "p2p" or "collective", name@communicator, task) of each collective and message, in order of start."""
    stepped = bool(events.steps(rows))
    step_of = {id(t): n for n, tasks in events.step_of_tasks(rows).items() for t in tasks}
    counted: dict[str, int] = defaultdict(int)
    for task in filter(events.is_communication, events.work_of(rows)):
        step = step_of.get(id(task), -1)
        group = hashed(task["args"].get("communicator", ""))
        kind = events.type_of(task)
        name = f"{kind}_{int(group) % 1000:03}_{counted[group]}_1@{group}"
        counted[group] += 1
        if step >= 0 or not stepped:
            yield f"step{step}" if stepped else "step", _side(kind), name, task


def _side(kind: str) -> str:
    return "p2p" if kind.lower().startswith(_P2P) else "collective"


def payload(task: Row) -> int:
    """Bytes of the call's count and type; 0 for types without a size."""
    return task["args"].get("count", 0) * events.HCCL_TYPES.get(task["args"].get("dtype"), 0)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0


def _moved(size: float, ms: float) -> dict[str, float]:
    """The columns that bandwidths and links share. MB/ms is GB/s."""
    return {"Transit Size(MB)": size / 10**6, "Transit Time(ms)": ms, "Bandwidth(GB/s)": _ratio(size / 10**6, ms)}


def _described(task: Row, transport: str) -> dict[str, Any]:
    size, ms = payload(task), (task["end"] - task["start"]) / 10**6
    times = {"Start Timestamp(us)": task["start"] / 1000, "Elapse Time(ms)": ms, "Transit Time(ms)": ms,
             "Wait Time(ms)": 0.0, "Synchronization Time(ms)": 0.0, "Idle Time(ms)": 0.0,
             **{ratio: 0.0 for ratio, _ in _RATIOS}}  # fmt: skip
    band = {**_moved(size, ms), "Large Packet Ratio": 0.0, "Size Distribution": {str(size / 10**6): [1, ms]}}
    return {"Communication Time Info": times, "Communication Bandwidth Info": {transport: band}}


def _total(described: list[dict[str, Any]]) -> dict[str, Any]:
    times: dict[str, float] = defaultdict(float)
    bands: dict[str, dict[str, Any]] = {}
    for one in described:
        for name, value in one["Communication Time Info"].items():
            if name != "Start Timestamp(us)":
                times[name] += value
        for transport, band in one["Communication Bandwidth Info"].items():
            sums = bands.setdefault(transport, {"size": 0, "time": 0, "sizes": defaultdict(lambda: [0, 0])})
            sums["size"] += band["Transit Size(MB)"] * 10**6
            sums["time"] += band["Transit Time(ms)"]
            for size, (count, ms) in band["Size Distribution"].items():
                sums["sizes"][size][0] += count
                sums["sizes"][size][1] += ms
    for ratio, of in _RATIOS:
        times[ratio] = _ratio(times[of], times[of] + times["Transit Time(ms)"])
    return {
        "Communication Time Info": times,
        "Communication Bandwidth Info": {
            transport: {**_moved(s["size"], s["time"]), "Large Packet Ratio": 0.0, "Size Distribution": s["sizes"]}
            for transport, s in bands.items()
        },
    }


class Groups:
    """Whose ranks a communicator has: `parallel_group_info` of profiler_metadata.json, by hashed name."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        infos = metadata.get("parallel_group_info", {})
        self._ranks = {hashed(name): info["global_ranks"] for name, info in infos.items()}
        self._mine = {hashed(name): info["group_rank"] for name, info in infos.items()}
        self._per_host = metadata.get("ranks_per_host")

    def transport(self, group: str) -> str:
        """SDMA: device memory of one host; RDMA: the group has ranks of several hosts, by the launcher's numbers."""
        hosts = {rank // self._per_host for rank in self._ranks.get(group, [])} if self._per_host else set()
        return "RDMA" if len(hosts) > 1 else "SDMA"

    def links(self, group: str) -> Iterator[tuple[str, str]]:
        """("0-1", transport) of this rank's links: to itself and each other rank of the group, by number."""
        if group not in self._ranks:
            return
        mine = self._mine[group]
        for other in range(len(self._ranks[group])):
            yield f"{mine}-{other}", "LOCAL" if other == mine else "HCCS" if self.transport(group) == "SDMA" else "RDMA"

    def size(self, group: str) -> int:
        return len(self._ranks.get(group, []))


def described(rows: dict[str, list[Row]], groups: Groups) -> Iterator[tuple[str, str, str, Any]]:
    """(step, side, name@communicator, its times and bandwidths) of each collective and message."""
    for step, side, name, task in operations(rows):
        yield step, side, name, _described(task, groups.transport(name.split("@")[1]))


def linked(rows: dict[str, list[Row]], groups: Groups) -> Iterator[tuple[str, str, str, str, Row, Any]]:
    """(step, side, name@communicator, link, task, what the link moved) of each collective and its links."""
    for step, side, name, task in operations(rows):
        group = name.split("@")[1]
        of_definition = _LINK_BYTES.get(events.type_of(task))
        for link, transport in groups.links(group) if of_definition else ():
            moved = _moved(of_definition(payload(task), groups.size(group)), (task["end"] - task["start"]) / 10**6)
            yield step, side, name, link, task, {"Transport Type": transport, **moved}


def times(rows: dict[str, list[Row]], groups: Groups) -> dict[str, Any]:
    """communication.json; {} without communication."""
    out: dict[str, Any] = {}
    for step, side, name, one in described(rows, groups):
        out.setdefault(step, {"p2p": {}, "collective": {}})[side][name] = one
    for sides in out.values():
        for named in filter(None, sides.values()):
            named["Total Op Info"] = _total(list(named.values()))
    return out


def matrix(rows: dict[str, list[Row]], groups: Groups) -> dict[str, Any]:
    """communication_matrix.json: by kind of collective and link its best, middle and worst bandwidths and its total."""
    found: dict[tuple[str, str, str], dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for step, side, name, link, task, entry in linked(rows, groups):
        kind, (name, group) = events.type_of(task), name.split("@")
        key = f"{kind.removeprefix('hcom_').rstrip('_').lower()}@{group}"
        found[step, side, key][link].append(entry | {"Op Name": name})
    out: dict[str, Any] = {}
    for (step, side, key), links in found.items():
        kind, group = key.split("@")
        named = out.setdefault(step, {"p2p": {}, "collective": {}})[side]
        for link, entries in links.items():
            entries.sort(key=lambda e: e["Bandwidth(GB/s)"], reverse=True)
            size, ms = (sum(e[column] for e in entries) for column in ("Transit Size(MB)", "Transit Time(ms)"))
            transport = entries[0]["Transport Type"]
            chosen = {"top1": entries[0], "middle": entries[len(entries) // 2],
                      **{f"bottom{n}": entries[-n] for n in range(1, min(3, len(entries)) + 1)},
                      "total": {"Transport Type": transport, **_moved(size * 10**6, ms)}}  # fmt: skip
            for rank, entry in chosen.items():
                named.setdefault(f"{kind}-{rank}@{group}", {})[link] = entry
    return out
