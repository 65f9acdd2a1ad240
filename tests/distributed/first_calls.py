"""Programs of first calls and first messages of groups, for test_connect.py."""

from __future__ import annotations

import datetime
import time

import torch
import torch.distributed as dist

from tests.distributed.groups import DEVICE, until


def first_message_without_the_third(rank: int, size: int) -> str:
    """Ranks 0 and 1 exchange a message before rank 2 has called anything."""
    if rank == 2:
        time.sleep(3)
        return ""
    t = torch.full((4,), 7.0 + rank, device=DEVICE)
    try:
        dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return str(t.tolist())


def first_message_to_nobody(rank: int, size: int) -> str:
    """Rank 0 sends to rank 1, which has used no device and calls nothing."""
    if rank:
        time.sleep(3)
        return ""
    try:
        dist.send(torch.ones(4, device=DEVICE), 1)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def first_message_beside_other_groups(rank: int, size: int) -> list[float]:
    """Each group's first call is a message while others wait in another group, or for what comes after it."""
    store = dist.distributed_c10d._get_default_store()
    every, late = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])
    t = torch.full((3,), float(rank), device=DEVICE)
    if rank == 0:
        dist.send(t + 10, 2, group=every)
        dist.recv(t, 2, group=late)
    elif rank == 2:
        dist.recv(t, 0, group=every)
        got = t.tolist()  # waits for the message, which rank 1 has nothing to do with
        dist.send(t + 1, 0, group=late)
        t = torch.tensor(got, device=DEVICE)
        store.set("exchanged", "1")
    else:
        until(store, ["exchanged"])  # the rank's own connection to the store is busy until then
    others = [torch.empty(3, device=DEVICE) for _ in range(size)]
    dist.all_gather(others, t, group=late)
    dist.all_reduce(t, group=every)
    return [o[0].item() for o in others] + [t[0].item()]


def joined_elsewhere(rank: int, size: int) -> str:
    """Rank 1 has used npu:0 only when rank 0's message needs it, and then receives on npu:1."""
    if rank == 2:
        return "done"
    t = torch.ones(4, device="npu:0")
    try:
        if rank == 0:
            dist.isend(t, 1)
        else:
            t.cpu()
            time.sleep(2)
            dist.recv(torch.ones(4, device="npu:1"), 0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def ring_of_first_messages(rank: int, size: int, rounds: int) -> list[float]:
    """Every rank sends before it receives, each time in a group of its own, and leaves."""
    got = []
    for round_ in range(rounds):
        group = dist.new_group(list(range(size)))
        t = torch.full((5,), float(rank + 10 * round_), device=DEVICE)
        out = torch.zeros(5, device=DEVICE)
        work = dist.isend(t, (rank + 1) % size, group=group)
        dist.recv(out, (rank - 1) % size, group=group)
        work.wait()
        got.append(out[0].item())
        dist.destroy_process_group(group)
    return got


def message_while_the_others_leave(rank: int, size: int) -> list[float]:
    """As in every tutorial: 0 sends to 1, the rest have nothing to do, and all destroy the group."""
    t = torch.full((4,), 7.0 + rank, device=DEVICE)
    if rank < 2:
        time.sleep(1)
        dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
    values = t.tolist()
    dist.destroy_process_group()
    return values


def message_tried_again(rank: int, size: int) -> list[str]:
    """Rank 1 comes too late for rank 0's first try, and in time for the second."""
    told = []
    if rank == 0:
        for _ in range(2):
            try:
                dist.send(torch.full((4,), 7.0, device=DEVICE), 1)
                told.append("sent")
            except Exception as error:
                told.append(str(error))
    elif rank == 1:
        time.sleep(3)
        t = torch.zeros(4, device=DEVICE)
        dist.recv(t, 0)
        told.append(str(t[0].item()))
    return told


def message_before_and_after_a_collective(rank: int, size: int) -> list[float]:
    """Rank 0 sends before the group's first collective; rank 1 receives behind it. Then messages the other way."""
    t, out = torch.full((4,), float(rank), device=DEVICE), torch.zeros(4, device=DEVICE)
    total = torch.ones(1, device=DEVICE)
    if rank == 0:
        dist.isend(t + 5, 1)
    dist.all_reduce(total)
    if rank == 1:
        dist.recv(out, 0)
        dist.send(out + 1, 2)
    elif rank == 2:
        dist.recv(out, 1)
        dist.send(out + 1, 0)
    elif rank == 0:
        dist.recv(out, 2)
    return [total.item(), out[0].item()]


def group_on_a_port(rank: int, size: int, port: int) -> float:
    """A whole world that ends with nothing of it left."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(
        "hccl",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=20),
    )
    t = torch.ones(1, device=DEVICE)
    dist.all_reduce(t)
    dist.barrier()
    dist.destroy_process_group()
    return t.item()


def one_store_for_group_after_group(rank: int, size: int) -> list[list[float]]:
    """Rank 0 comes late to each: what the groups before have left in the store is nobody's."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    store = dist.distributed_c10d._get_default_store()
    got = []
    for number in range(3):
        if rank == 0 and number:
            time.sleep(0.5)
        options = ProcessGroupHCCL.Options()
        options._timeout = datetime.timedelta(seconds=20)
        group = ProcessGroupHCCL(store, rank, size, options)
        t = torch.full((2,), 10.0 * number + rank, device=DEVICE)
        if number == 1 and rank < 2:  # a message first
            (group.send([t], 1, 0) if rank == 0 else group.recv([t], 0, 0)).wait()
        group.allreduce([t]).wait()
        got.append(t.tolist())
        group.monitored_barrier(datetime.timedelta(seconds=20))
        group.shutdown()
    return got


def aborted_while_a_peer_stands_still(rank: int, size: int) -> list[float]:
    """Rank 1 comes to the meeting, but not to the communicator: rank 0's call ends with its group, at once."""
    import threading

    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    store = dist.PrefixStore("still", dist.distributed_c10d._get_default_store())
    if rank == 1:
        key = "hccl_root_info/0/0"
        store.compare_set(f"{key}/0/here/1", "", "1")
        while not store.check([f"{key}/0/first"]):
            store.compare_set(f"{key}/0/state", "", "met")
            time.sleep(0.05)
        until(store, ["aborted"])
        return []
    options = ProcessGroupHCCL.Options()
    group = ProcessGroupHCCL(store, 0, 2, options)
    told, took = [], []

    def call() -> None:
        try:
            group.allreduce([torch.ones(2, device=DEVICE)])
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=call)
    thread.start()
    while not store.check(["hccl_root_info/0/0/0/first"]):  # a wait would keep the connection from the call
        time.sleep(0.05)
    time.sleep(0.5)
    began = time.monotonic()
    group.abort()
    took.append(time.monotonic() - began)
    thread.join(30)
    took.append(time.monotonic() - began)
    store.set("aborted", "1")
    assert told, "the call still waits"
    return took
