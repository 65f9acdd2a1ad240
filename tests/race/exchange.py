"""Seeded races of two processes that share memory, each with its mended twin; and what shares memory every day and has
no race. `@bug(words...)` and `@mended` as in cases.py. A case is run by the owner of the memory; `peer.name(...)` runs
THERE's function in the other process, and is over when that has put its work on its streams, not when the work is done.
Who uses it: test_exchange.py. Long because it is a table: a row is a bug and its twin.

    ANYCEND_CHECK=race ANYCEND_DEVICES=2 python -m tests.race.exchange [--table]      as cases.py
    ANYCEND_CHECK=race ANYCEND_DEVICES=2 python -m tests.race.exchange daily          what has no race; each process
                                                                                     prints what it found
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.multiprocessing.reductions import reduce_tensor

import torch_npu  # noqa: F401
from tests import seeded
from tests.runtime.acl import Acl
from tests.runtime.test_memory import physical

N = 100_000
TABLE = seeded.Table()
BUGS, TWINS, bug, mended = TABLE.bugs, TABLE.twins, TABLE.bug, TABLE.mended
THERE: dict[str, object] = {}
SPAWN = mp.get_context("spawn")
kept: dict[str, object] = {}  # in the other process


def there(f):
    THERE[f.__name__] = f
    return f


# --- what the other process does --------------------------------------------------------------------------------------


@there
def take(name, value):
    kept[name] = value


@there
def take_by_handle(name, function, values):
    kept[name] = function(*values)


@there
def double(begin=None, end=None):
    kept["y"] = kept["x"][begin:end] * 2


@there
def overwrite(begin=None, end=None):
    kept["x"][begin:end].mul_(2)


@there
def copy_to_host():
    return kept["x"].cpu()[0].item()


@there
def wait_for(event):
    event.wait()


@there
def record(event):
    event.record()


@there
def synchronize():
    torch.npu.synchronize()


@there
def all_reduce():
    dist.all_reduce(torch.ones(8, device="npu:1"))
    torch.npu.current_stream(0).wait_stream(torch.npu.current_stream(1))


@there
def join_group(path):
    dist.init_process_group("hccl", store=dist.FileStore(path, 2), rank=1, world_size=2)
    all_reduce()


@there
def fill_by_handle(exported):
    acl = Acl()
    handle = acl.out("aclrtMemImportFromShareableHandle", ctypes.c_void_p, exported, 0, first=False)
    acl.raw.aclrtMemsetAsync(mapped(acl, handle), PAGE, 1, PAGE, torch.npu.current_stream().npu_stream)


@there
def reports():
    torch.npu.synchronize(0)
    return torch.npu.race_reports()


@there
def drop():
    kept.clear()


def serve(pipe):
    torch.npu.set_device(0)
    while (message := pipe.recv()) is not None:
        name, arguments = message
        pipe.send(THERE[name](*arguments))
        del message, arguments


class Peer:
    def __init__(self) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()

    def __getattr__(self, name):
        def call(*arguments):
            self.pipe.send((name, arguments))
            if not self.pipe.poll(120):
                raise TimeoutError("the other process does not answer")
            return self.pipe.recv()

        return call

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()


PAGE = 2 << 20


def mapped(acl: Acl, handle: int) -> int:
    at = acl.out("aclrtReserveMemAddress", ctypes.c_void_p, PAGE, 0, None, 1)
    acl.aclrtMapMem(at, PAGE, 0, handle, 0)
    return at


# --- cases ------------------------------------------------------------------------------------------------------------


def shared(peer: Peer) -> torch.Tensor:
    x = torch.ones(N, device="npu")
    peer.take("x", x)
    return x


@bug("aclnnMul", "aclnnAdd", "does not wait", "synchronize()")
def read_too_early(peer):
    x = shared(peer)
    x.add_(1)
    peer.double()


@mended
def read_too_early_mended(peer):
    x = shared(peer)
    x.add_(1)
    torch.npu.synchronize()
    peer.double()


@bug("aclnnMul", "reads", "writes", "does not wait")
def overwritten_while_read(peer):
    x = shared(peer)
    peer.double()
    x.zero_()


@mended
def overwritten_while_read_mended(peer):
    x = shared(peer)
    peer.double()
    peer.synchronize()
    x.zero_()


@bug("aclnnAdd", "aclnnMul", "writes")
def two_writers(peer):
    """Hogwild: meant so, and reported."""
    x = shared(peer)
    peer.overwrite()
    x.add_(1)


@mended
def two_writers_mended(peer):
    x = shared(peer)
    for _ in range(3):
        peer.overwrite()
        peer.synchronize()
        x.add_(1)
        torch.npu.current_stream().synchronize()


@bug("aclrtMemcpyAsync", "does not wait")
def copied_to_the_host_too_early(peer):
    x = shared(peer)
    x.add_(1)
    peer.copy_to_host()


@mended
def copied_to_the_host_too_early_mended(peer):
    x = shared(peer)
    x.add_(1)
    x[:1].cpu()
    assert peer.copy_to_host() == 2.0


@bug("does not wait", "aclnnMul")
def slices_overlap(peer):
    x = shared(peer)
    x[: N // 2 + 1].add_(1)
    peer.overwrite(N // 2)


@mended
def slices_overlap_mended(peer):
    x = shared(peer)
    x[: N // 2].add_(1)
    peer.overwrite(N // 2)


@bug("does not wait", "interprocess=True")
def event_recorded_too_early(peer):
    x, e = shared(peer), torch.npu.Event(interprocess=True)
    e.record()
    x.add_(1)
    peer.wait_for(e)
    peer.double()


@mended
def event_recorded_too_early_mended(peer):
    x, e = shared(peer), torch.npu.Event(interprocess=True)
    x.add_(1)
    e.record()
    peer.wait_for(e)
    peer.double()


@bug("does not wait")
def event_of_another_stream(peer):
    x, s, e = shared(peer), torch.npu.Stream(), torch.npu.Event(interprocess=True)
    with torch.npu.stream(s):
        x.add_(1)
    e.record()
    peer.wait_for(e)
    peer.double()


@mended
def event_of_another_stream_mended(peer):
    x, s, e = shared(peer), torch.npu.Stream(), torch.npu.Event(interprocess=True)
    with torch.npu.stream(s):
        x.add_(1)
    torch.npu.current_stream().wait_stream(s)
    e.record()
    peer.wait_for(e)
    peer.double()


def ring(peer, waits: bool):
    """A producer and a consumer with two events, without a word of the hosts."""
    x, full, free = shared(peer), torch.npu.Event(interprocess=True), torch.npu.Event(interprocess=True)
    for _ in range(4):
        x.add_(1)
        full.record()
        peer.wait_for(full)
        peer.double()
        peer.record(free)
        if waits:
            free.wait()


@bug("aclnnAdd", "writes", "does not wait")
def buffer_filled_before_it_is_free(peer):
    ring(peer, False)


@mended
def buffer_filled_before_it_is_free_mended(peer):
    ring(peer, True)


@bug("aclnnMul", "does not wait")
def written_behind_the_collective(peer):
    x = shared(peer)
    dist.all_reduce(torch.ones(8, device="npu"))
    x.add_(1)
    peer.all_reduce()
    peer.double()


@mended
def written_behind_the_collective_mended(peer):
    x = shared(peer)
    x.add_(1)
    dist.all_reduce(torch.ones(8, device="npu"))
    peer.all_reduce()
    peer.double()


@bug("aclnnMul", "does not wait")
def handle_used_too_early(peer):
    x = torch.ones(N, device="npu")
    peer.take_by_handle("x", *reduce_tensor(x))
    x.add_(1)
    peer.double()


@mended
def handle_used_too_early_mended(peer):
    """As trainers give weights to an inference engine: a handle once, then new values and a message."""
    x = torch.ones(N, device="npu")
    peer.take_by_handle("x", *reduce_tensor(x))
    for _ in range(3):
        x.add_(1)
        torch.npu.synchronize()
        peer.double()
        peer.synchronize()


def one_of_two_mappings(peer, waits: bool):
    """The memory stays when one of its addresses goes."""
    acl = Acl()
    handle = physical(acl, PAGE)
    exported = acl.out("aclrtMemExportToShareableHandle", ctypes.c_uint64, handle, 0, 0, first=False)
    x, again = mapped(acl, handle), mapped(acl, handle)
    peer.fill_by_handle(exported)
    if waits:
        peer.synchronize()
    acl.aclrtUnmapMem(again)
    acl.raw.aclrtMemsetAsync(x, PAGE, 2, PAGE, torch.npu.current_stream().npu_stream)


@bug("aclrtMemsetAsync", "writes", "does not wait")
def handle_mapped_twice(peer):
    one_of_two_mappings(peer, False)


@mended
def handle_mapped_twice_mended(peer):
    one_of_two_mappings(peer, True)


def found_by(case, peer: Peer) -> list[str]:
    torch.npu.synchronize()
    before = len(torch.npu.race_reports()), len(peer.reports())
    case(peer)
    torch.npu.synchronize()
    found = torch.npu.race_reports()[before[0] :] + peer.reports()[before[1] :]
    peer.drop()
    return found


def all_cases() -> None:
    peer = Peer()
    torch.npu.set_device(0)
    with tempfile.NamedTemporaryFile() as file:
        peer.pipe.send(("join_group", (file.name,)))
        dist.init_process_group("hccl", store=dist.FileStore(file.name, 2), rank=0, world_size=2)
        dist.all_reduce(torch.ones(8, device="npu"))  # makes the communicator, and needs both
        peer.pipe.recv()
        seeded.show({n: {"bug": found_by(BUGS[n][0], peer), "mended": found_by(TWINS[n], peer)} for n in BUGS})
    peer.close()


# --- every day --------------------------------------------------------------------------------------------------------


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((256,), float(i), device="npu") ** 2


def loader() -> None:
    batches = torch.utils.data.DataLoader(Squares(), 8, num_workers=2, multiprocessing_context="spawn")
    total = torch.zeros(256, device="npu")
    for batch in batches:
        total += batch.sum(0)
    assert total[0].item() == sum(i * i for i in range(64))


def produce(queue, done):
    for i in range(30):
        x = torch.full((1000,), float(i), device="npu")
        x.add_(1)
        queue.put(x)
        del x
    queue.put(None)
    done.get()
    print("found", len(torch.npu.race_reports()), flush=True)


def queue() -> None:
    """The receiver neither waits nor says when it has done with a tensor: it only lets go of it."""
    tensors, done = SPAWN.Queue(4), SPAWN.Queue()
    process = SPAWN.Process(target=produce, args=(tensors, done))
    process.start()
    total = torch.zeros(1000, device="npu")
    while (x := tensors.get()) is not None:
        total += x
        del x
    assert total[0].item() == sum(range(1, 31))
    done.put(None)
    process.join()


def infer(pipe):
    function, state = pipe.recv()
    net = torch.nn.Linear(64, 64, device="npu")
    for parameter, handle in zip(net.parameters(), state, strict=True):
        parameter.data = function(*handle)
    for _ in range(5):
        pipe.recv()
        with torch.no_grad():
            pipe.send(net(torch.ones(4, 64, device="npu")).sum().item())
    print("found", len(torch.npu.race_reports()), flush=True)


def weights() -> None:
    """A trainer whose weights an engine reads where they are, in turn."""
    net = torch.nn.Linear(64, 64, device="npu")
    pipe, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=infer, args=(theirs,))
    process.start()
    handles = [reduce_tensor(p.data) for p in net.parameters()]
    pipe.send((handles[0][0], [values for _, values in handles]))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for _ in range(5):
        net(torch.randn(32, 64, device="npu")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.npu.synchronize()
        pipe.send("go on")
        pipe.recv()
    process.join()


if __name__ == "__main__":
    if "race" not in os.environ.get("ANYCEND_CHECK", "").split(",") or torch.npu.device_count() < 2:
        sys.exit("tests.race.exchange: give ANYCEND_CHECK=race, without which nothing is found, and two devices")
    if sys.argv[1:] == ["daily"]:
        loader(), queue(), weights()
        print("found", len(torch.npu.race_reports()))
    else:
        all_cases()
