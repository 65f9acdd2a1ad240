"""Many tensors, and many deaths: nothing is left of any of them."""

from __future__ import annotations

import gc
import os
import random
import time

import pytest
import torch

from tests.sharing import programs
from tests.sharing.peer import SPAWN, Peer
from torch_npu import _C

DEV = "npu"


def swap(incoming, outgoing, count: int) -> None:
    """Sends a tensor for each that comes, made of it; every fifth goes back itself."""
    generator = random.Random(1)
    kept: list[torch.Tensor] = []
    for i in range(count):
        tensor = incoming.get()
        if i % 5 == 0:
            tensor += 1
            torch.npu.synchronize()
            outgoing.put(tensor)
        else:
            outgoing.put(tensor * 2)
        kept.append(tensor)
        del tensor
        if len(kept) > 50:
            kept.pop(generator.randrange(len(kept)))
    kept.clear()
    outgoing.put(None)
    incoming.get()
    torch.npu.ipc_collect()
    outgoing.put((torch.npu.memory_allocated(), _C._outstanding_messages()))
    incoming.get()


def memory() -> int:
    gc.collect()
    torch.npu.ipc_collect()
    return torch.npu.memory_allocated()


def resident_in_shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "anycend" in name or "npu" in name}


@pytest.mark.full
def test_two_processes_exchange_ten_thousand_tensors() -> None:
    count, under_way = 10_000, 200
    start, descriptors = memory(), len(os.listdir("/proc/self/fd"))
    there, back = SPAWN.Queue(), SPAWN.Queue()
    child = SPAWN.Process(target=swap, args=(there, back, count))
    child.start()
    generator = random.Random(2)
    sent: dict[int, torch.Tensor] = {}
    begin = time.monotonic()
    for i in range(count + under_way):
        if i < count:
            size = generator.choice((1, 17, 1000, 300_000))
            sent[i] = torch.full((size,), float(i), device=DEV)[generator.randrange(size) :]
            there.put(sent[i])
        if i >= under_way:
            j = i - under_way
            got, mine = back.get(timeout=120), sent.pop(j)
            want = j + 1.0 if j % 5 == 0 else j * 2.0
            assert got.shape == mine.shape and got[0].item() == want and got[-1].item() == want
            assert (got.data_ptr() == mine.data_ptr()) == (j % 5 == 0)
            if j % 5 == 0:
                assert mine[-1].item() == want, "it is the same memory"
            del got, mine
    print(f"{count} tensors there and back in {time.monotonic() - begin:.1f} s")
    assert back.get(timeout=120) is None
    gc.collect()
    torch.npu.ipc_collect()
    there.put(None)
    theirs, outstanding = back.get(timeout=120)
    assert outstanding == 0 and theirs < 4 << 20
    there.put(None)
    child.join()
    assert memory() == start and _C._outstanding_messages() == 0
    for queue in (there, back):
        queue.close()
        queue.join_thread()
    del there, back, queue
    child.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2, "but for the table of what is shared, and the tracker"


def traffic(connection, seed: int) -> None:
    """Gives and takes tensors without an end."""
    generator = random.Random(seed)
    kept: list[torch.Tensor] = []
    while True:
        try:
            connection.send(torch.full((generator.choice((10, 100_000)),), 3.0, device=DEV))
            tensor = connection.recv()
        except (EOFError, OSError):
            return
        kept.append(tensor)
        if len(kept) > 10:
            kept.pop(0)


@pytest.mark.full
@pytest.mark.parametrize("side", ["receiver", "owner"])
def test_a_hundred_deaths_leave_nothing(side: str) -> None:
    """Each time a process that gives and takes tensors is killed anywhere; this one lives on."""
    generator = random.Random(side)
    start, objects, shared = memory(), resident_in_shared_memory(), programs.shared_descriptors()
    descriptors: list[int] = []
    free_before = torch.npu.mem_get_info()[0]
    for round_ in range(100):
        mine, theirs = SPAWN.Pipe()
        child = SPAWN.Process(target=traffic, args=(theirs, round_))
        child.start()
        theirs.close()
        kept: list[torch.Tensor] = []
        first = mine.recv() if mine.poll(120) else None
        assert first is not None
        end = time.monotonic() + generator.uniform(0, 0.3)
        errors = 0
        killed = False
        while True:
            if not killed and time.monotonic() > end:
                child.kill()
                killed = True
            try:
                if side == "receiver" or not kept:
                    mine.send(torch.full((generator.choice((10, 100_000)),), 4.0, device=DEV))
                else:
                    mine.send(kept[-1])  # back to its owner
                if not mine.poll(30):
                    raise TimeoutError("neither a tensor nor an end")
                kept.append(mine.recv())
            except (EOFError, OSError):
                break
            except RuntimeError as error:
                assert "has ended" in str(error), error
                errors += 1
            if len(kept) > 10:
                kept.pop(0)
        child.join()
        for tensor in kept:
            values = tensor.cpu().unique().tolist()
            assert values in ([3.0], [4.0]), values
        first = None
        tensor = None
        kept.clear()
        mine.close()
        child.close()
        assert memory() == start, f"round {round_}"
        assert _C._outstanding_messages() == 0, f"round {round_}"
        descriptors.append(len(os.listdir("/proc/self/fd")))
    assert descriptors[-1] <= descriptors[0] + 1
    assert len(programs.shared_descriptors()) <= len(shared) + 1, "but for the table of what is shared"
    assert resident_in_shared_memory() == objects
    assert abs(torch.npu.mem_get_info()[0] - free_before) < 2 << 30
    survivor = Peer()
    assert survivor.describe(torch.ones(2, device=DEV))["values"] == [1.0, 1.0]
    survivor.close()
