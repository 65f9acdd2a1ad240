"""Programs about orders, ends and settings of groups: what must not hang, be told, and be usable again.

Long because every way to fail is a small program of its own.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
import time

import torch
import torch.distributed as dist

DEVICE = "npu"


def backend(group=None):
    return (group or dist.distributed_c10d._get_default_group())._get_backend(torch.device(DEVICE))


def still_works(rank: int, size: int, group=None) -> None:
    t = torch.full((5,), float(rank), device=DEVICE)
    dist.all_reduce(t, group=group)
    assert torch.equal(t.cpu(), torch.full((5,), size * (size - 1) / 2)), t


# --- coalescing -------------------------------------------------------------------------------------------------------


def coalesced_copies(rank: int, size: int) -> None:
    """Calls that need buffers of their own: strided inputs, uint8, factors."""
    rows = [torch.arange(8.0, device=DEVICE).reshape(2, 4) + 100 * i + rank for i in range(6)]
    outs = [torch.zeros(size * 4, 2, device=DEVICE) for _ in rows]
    with dist._coalescing_manager(async_ops=True) as block:
        for row, out in zip(rows, outs, strict=True):
            dist.all_gather_into_tensor(out, row.t())
    block.wait()
    for i, out in enumerate(outs):
        want = torch.cat([(torch.arange(8.0).reshape(2, 4) + 100 * i + r).t() for r in range(size)])
        assert torch.equal(out.cpu(), want), (i, out.cpu(), want)
    numbers = [torch.full((3,), i + 1, dtype=torch.uint8, device=DEVICE) for i in range(6)]
    with dist._coalescing_manager():
        for number in numbers:
            dist.all_reduce(number)
    for i, number in enumerate(numbers):
        assert number.tolist() == [(i + 1) * size] * 3, (i, number)
    floats = [torch.full((3,), float(i + 1), device=DEVICE) for i in range(6)]
    with dist._coalescing_manager():
        for f in floats:
            dist.all_reduce(f, dist._make_nccl_premul_sum(0.5))
    for i, f in enumerate(floats):
        assert f.tolist() == [(i + 1) * size * 0.5] * 3, (i, f)


def coalesced_with_a_device(rank: int, size: int, async_ops: bool) -> None:
    a, b = torch.full((4,), float(rank), device=DEVICE), torch.full((2, 3), rank + 1.0, device=DEVICE).t()
    parts = [torch.zeros(3, 2, device=DEVICE) for _ in range(size)] if rank == 0 else None
    out = torch.zeros(2, device=DEVICE)
    pieces = [torch.full((2,), 10.0 + r, device=DEVICE) for r in range(size)] if rank == 1 else None
    with dist._coalescing_manager(device=torch.device(DEVICE), async_ops=async_ops) as block:
        dist.all_reduce(a)
        dist.gather(b, parts, 0, async_op=True)
        dist.scatter(out, pieces, 1, async_op=True)
    if async_ops:
        block.wait()
    assert a.tolist() == [size * (size - 1) / 2] * 4, a
    assert out.tolist() == [10.0 + rank] * 2, out
    for r, part in enumerate(parts or []):
        assert torch.equal(part.cpu(), torch.full((3, 2), r + 1.0)), part
    still_works(rank, size)


def coalesced_in_two_groups(rank: int, size: int) -> None:
    """The inner block's work is done when its block says so, not when the outer one ends."""
    one, two = dist.new_group(), dist.new_group()
    a, b = torch.ones(3, device=DEVICE), torch.full((3,), 2.0, device=DEVICE)
    device = torch.device(DEVICE)
    with dist._coalescing_manager(one, device, async_ops=True) as outer:
        dist.broadcast(a.mul_(rank + 1), 1, group=one, async_op=True)
        with dist._coalescing_manager(two, device):
            dist.all_reduce(b, group=two)
        assert b.tolist() == [2.0 * size] * 3, b
    outer.wait()
    assert a.tolist() == [2.0] * 3, a


def coalescing_that_fails(rank: int, size: int) -> None:
    """Whatever is raised inside, by whom: the group is as before."""
    device = torch.device(DEVICE)
    for made in (None, device):
        for failing, kind, words in (
            (lambda: 1 / 0, ZeroDivisionError, "by zero"),
            (lambda: dist.all_reduce(torch.ones(3)), RuntimeError, "not on cpu"),
            (lambda: dist.broadcast(torch.ones(3), 0), RuntimeError, "No backend type associated with device type cpu"),
            (lambda: dist.broadcast(torch.ones(3, device=DEVICE), size), ValueError, "rank"),
        ):
            t = torch.ones(4, device=DEVICE)
            try:
                with dist._coalescing_manager(device=made):
                    dist.all_reduce(t)
                    failing()
            except kind as error:
                assert words in str(error), error
            else:
                raise AssertionError("nothing was raised")
            assert t.tolist() == [1.0] * 4, t
            still_works(rank, size)
    try:
        dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, torch.ones(2, device=DEVICE), (rank + 1) % size),
                dist.P2POp(dist.irecv, torch.ones(2), (rank - 1) % size),  # of the CPU
            ]
        )
    except RuntimeError as error:
        assert "device type cpu" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    still_works(rank, size)
    dist.barrier()


def refused_by_the_library(rank: int, size: int) -> None:
    """A call that HCCL itself refuses, in the middle of a block."""
    group = dist.new_group()
    t = torch.ones(4, device=DEVICE)
    try:
        with dist._coalescing_manager(group, torch.device(DEVICE)):
            dist.broadcast(t, 0, group=group, async_op=True)
            backend(group).allreduce([torch.ones(2, dtype=torch.float8_e4m3fn, device=DEVICE)]).wait()
    except Exception as error:
        assert "started already" not in str(error), error
    else:
        raise AssertionError("float8 was added up")
    still_works(rank, size)
    fresh = dist.new_group()
    still_works(rank, size, fresh)


# --- messages ---------------------------------------------------------------------------------------------------------


def orders(rank: int, size: int, n: int, batched: bool) -> None:
    """All pairs, rings and stars, in orders that one stream of sends and one of receives could not carry out."""
    others = [r for r in range(size) if r != rank]
    ring = [(rank + 1) % size, (rank - 1) % size]
    for to, of in ((others, others[::-1]), (others[::-1], others[::-1]), (others, others), (ring[:1], ring[1:])):
        sent = [torch.full((n,), float(rank * 10 + peer), device=DEVICE) for peer in to]
        got = [torch.zeros(n, device=DEVICE) for _ in of]
        if batched:
            receives = [dist.P2POp(dist.irecv, g, peer) for g, peer in zip(got, of, strict=True)]
            sends = [dist.P2POp(dist.isend, s, peer) for s, peer in zip(sent, to, strict=True)]
            # Separate batches: the one is not waited for before the other is begun.
            works = [w for ops in ((sends, receives) if rank % 2 else (receives, sends))
                     for op in ops for w in dist.batch_isend_irecv([op])]  # fmt: skip
        else:
            works = [dist.irecv(g, peer) for g, peer in zip(got, of, strict=True)]
            works += [dist.isend(s, peer) for s, peer in zip(sent, to, strict=True)]
        for work in works:
            work.wait()
        for g, peer in zip(got, of, strict=True):
            assert torch.equal(g.cpu(), torch.full((n,), float(peer * 10 + rank))), (rank, peer, g)


def gather_beside_messages(rank: int, size: int) -> None:
    """A gather takes no message of send and recv, whatever the order here and there."""
    t = torch.full((2000,), float(rank), device=DEVICE)
    parts = [torch.zeros(2000, device=DEVICE) for _ in range(size)]
    got = torch.zeros(2000, device=DEVICE)
    if rank == 0:
        dist.gather(t, parts, 0)
        dist.recv(got, 1)
        assert got[0].item() == 71.0 and [p[0].item() for p in parts] == [float(r) for r in range(size)]
    else:
        work = dist.isend(torch.full((2000,), 71.0, device=DEVICE), 0) if rank == 1 else None
        dist.gather(t, None, 0)
        if work:
            work.wait()
    torch.npu.synchronize()


def many_groups(rank: int, size: int) -> None:
    """More groups than a pool has streams: each has streams of its own."""
    groups = [dist.new_group() for _ in range(18)]
    for group in groups:  # making a communicator is a collective: in one order
        dist.barrier(group=group)
    t = torch.zeros(20_000, device=DEVICE)
    following, previous = (rank + 1) % size, (rank - 1) % size
    works = []
    for group in groups if rank % 2 else groups[::-1]:
        works.append(dist.irecv(t, previous, group=group))
    out = torch.ones(20_000, device=DEVICE)
    for group in groups:
        works.append(dist.isend(out, following, group=group))
    for work in works:
        work.wait()
    assert t.sum().item() == 20_000
    for group in groups:
        dist.destroy_process_group(group)


# --- ends -------------------------------------------------------------------------------------------------------------


def aborted(rank: int, size: int) -> dict:
    """Rank 0 waits for a message that nobody sends, and gives up."""
    still_works(rank, size)
    if rank:
        time.sleep(1.5)
        return {}
    torch.npu.synchronize()
    t = torch.zeros(100_000, device=DEVICE)
    work = dist.irecv(t, 1)
    began = time.monotonic()
    backend().abort()
    told = {}
    try:
        work.wait(datetime.timedelta(seconds=20))
    except Exception as error:
        told["work"] = f"{type(error).__name__}: {error}"
    told["waited"] = time.monotonic() - began
    try:
        torch.npu.synchronize()
    except Exception as error:
        told["synchronize"] = str(error)
    try:
        dist.all_reduce(t)
    except Exception as error:
        told["after"] = str(error)
    dist.destroy_process_group()
    told["destroyed"] = time.monotonic() - began
    told["device"] = torch.ones(3, device=DEVICE).add(1).sum().item()
    return told


def aborted_in_a_collective(rank: int, size: int) -> dict:
    """All but the last wait in a collective; rank 0 gives the group up, which frees the others, too."""
    still_works(rank, size)
    if rank == size - 1:
        time.sleep(2)
        return {}
    t = torch.ones(100_000, device=DEVICE)
    began = time.monotonic()
    work = dist.all_reduce(t, async_op=True)
    if rank == 0:
        time.sleep(0.3)
        backend().abort()
    told = {}
    try:
        work.wait(datetime.timedelta(seconds=20))
    except Exception as error:
        told["work"] = str(error)
    told["waited"] = time.monotonic() - began
    return told


def called_after_a_peer_gave_up(rank: int, size: int) -> list[str]:
    """The last rank gives the group up at once; the types of what the others' calls raise, until one does."""
    still_works(rank, size)
    torch.npu.synchronize()
    dist.barrier()
    if rank == size - 1:
        backend().abort()
        time.sleep(2)
        return []
    t, x, raised = torch.ones(100_000, device=DEVICE), torch.ones(900, 900, device=DEVICE), []
    end = time.monotonic() + 10
    while len(raised) < 5 and time.monotonic() < end:
        torch.mm(x, x)  # what the group's stream waits for, when it has failed already
        try:
            dist.all_reduce(t, async_op=True)
        except Exception as error:
            raised.append(type(error).__name__)
        time.sleep(0.002)
    return sorted(set(raised))


def destroyed_after_a_failure(rank: int, size: int, pause: float, file: str) -> dict:
    """The end of a group that failed is quiet, whether or not the watchdog knew of it, and another one works."""
    still_works(rank, size)
    other = dist.new_group()
    still_works(rank, size, other)
    told = {}
    # The call raises when its collective has failed already. The stream has the error until something waits for it.
    for step in (lambda: dist.all_reduce(torch.ones(4 + rank, device=DEVICE)), torch.npu.synchronize):
        try:
            step()
        except Exception as error:
            told["collective"] = str(error)
    time.sleep(pause)
    dist.destroy_process_group()
    told["left"] = dist.is_initialized()
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("hccl", init_method=f"file://{file}", rank=rank, world_size=size, timeout=limit)
    still_works(rank, size)
    dist.destroy_process_group()
    return told


def destroyed_after_a_capture(rank: int, size: int) -> list[float]:
    """What is captured does not run: the group's end does not wait for it, and the watchdog does not ask."""
    still_works(rank, size)
    x = torch.ones(4, device=DEVICE)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        time.sleep(0.3)  # rounds of the watchdog
        work.wait()
    graph.replay()
    torch.npu.synchronize()
    with torch.npu.graph(torch.npu.NPUGraph()):
        dist.all_reduce(x)
    dist.destroy_process_group()
    assert not dist.is_initialized()
    return x.tolist()


def longer_timeout(rank: int, size: int) -> str:
    """The group's timeout is 2 s; a later one of 30 s counts, also for a communicator that exists."""
    still_works(rank, size)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=30))
    if rank == size - 1:
        time.sleep(5)
    try:
        still_works(rank, size)
    except Exception as error:
        return str(error)
    return ""


def shorter_timeout(rank: int, size: int) -> tuple[str, float]:
    still_works(rank, size)
    backend()._set_default_timeout(datetime.timedelta(seconds=1))
    if rank == size - 1:
        time.sleep(4)
        return "", 0.0
    began = time.monotonic()
    try:
        still_works(rank, size)
    except Exception as error:
        return str(error), time.monotonic() - began
    return "", time.monotonic() - began


def reinitialized(rank: int, size: int, rebuild: bool) -> None:
    """After a failure, on every rank, the same groups work again."""
    from torch_npu.distributed import reinit_process_group

    other = dist.new_group()
    still_works(rank, size)
    still_works(rank, size, other)
    if rank == 0:
        try:  # alone, until the group's time is over
            still_works(rank, size)
        except Exception:
            pass
        else:
            raise AssertionError("one rank alone cannot reduce")
    else:
        time.sleep(5)
        try:  # the error of rank 0 is everybody's
            still_works(rank, size)
        except Exception:
            pass
    store = dist.distributed_c10d._get_default_store()
    store.set(f"here/{rebuild}/{rank}", "1")
    store.wait([f"here/{rebuild}/{r}" for r in range(size)])
    try:
        torch.npu.synchronize()
    except RuntimeError:
        pass
    reinit_process_group(None, rebuild)
    still_works(rank, size)
    still_works(rank, size, other)


# --- settings and tools -----------------------------------------------------------------------------------------------


def named_by_options(rank: int, size: int) -> str:
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    options = ProcessGroupHCCL.Options(is_high_priority_stream=True)
    options.hccl_config = {"hccl_buffer_size": 64, "group_name": "mine", "qos_traffic_class": 132}
    group = dist.new_group(backend="hccl", pg_options=options)
    options.hccl_config = {"group_name": "another"}  # too late for this group
    assert backend(group).get_hccl_comm_name(rank, init_comm=False) == ""
    still_works(rank, size, group)
    assert backend(group).options.hccl_config["hccl_buffer_size"] == 64
    assert backend(group).get_hccl_comm(rank) != 0
    return backend(group).get_hccl_comm_name(rank)


def made_by_hand(rank: int, size: int) -> tuple[str, str]:
    """A group unknown to PyTorch: its communicator's name, and what rank 0 is told when rank 1 makes no second call."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    store, options = dist.distributed_c10d._get_default_store(), ProcessGroupHCCL.Options()
    options.op_timeout, options.group_id = datetime.timedelta(seconds=3), "mine"
    group = ProcessGroupHCCL(dist.PrefixStore("by hand", store), rank, size, options)
    t, text = torch.ones(4, device=DEVICE), ""
    group.allreduce([t]).wait()
    assert t.tolist() == [2.0] * 4, t
    if rank == 0:
        try:
            group.allreduce([t]).wait()
            torch.npu.synchronize()
        except Exception as error:
            text = str(error)
        store.set("told", "1")
    store.wait(["told"])
    return group.get_hccl_comm_name(0), text


def split(rank: int, size: int) -> None:
    """Halves by split_group; each reduces on its own, the parent goes on."""
    still_works(rank, size)
    halves = [list(range(0, size, 2)), list(range(1, size, 2))]
    half = dist.split_group(None, halves, group_desc="half")
    mine = halves[rank % 2]
    t = torch.full((6,), float(rank), device=DEVICE)
    dist.all_reduce(t, group=half)
    assert t.tolist() == [float(sum(mine))] * 6, t
    assert dist.get_group_rank(half, rank) == mine.index(rank)
    still_works(rank, size)
    alone = dist.split_group(None, [[0]])
    assert (alone is not None) == (rank == 0)
    dist.destroy_process_group(half)


def monitored(rank: int, size: int) -> str:
    group = backend()
    group.monitored_barrier(datetime.timedelta(seconds=20))
    if rank == size - 1:
        time.sleep(2)
        return ""
    try:
        group.monitored_barrier(datetime.timedelta(seconds=1), True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def recorded(rank: int, size: int) -> dict:
    """What the flight recorder knows of three calls."""
    import pickle

    from torch_npu._C import _distributed_c10d as c

    t = torch.ones(3, 4, device=DEVICE)
    dist.all_reduce(t)
    dist.broadcast(t, 0)
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(t, 1 - rank)
    torch.npu.synchronize()
    time.sleep(0.5)
    as_json = json.loads(c._dump_hccl_trace_json())
    pickled = pickle.loads(c._dump_hccl_trace())
    bare = pickle.loads(c._dump_hccl_trace(includeCollectives=False))
    frames = [frame["name"] for frame in pickled["entries"][0]["frames"]] if pickled["entries"] else []
    return {"json": as_json.get("entries", []), "config": pickled["pg_config"], "frames": frames, "bare": sorted(bare)}


def dies(rank: int, size: int) -> str:
    """The last rank ends with an ordinary error; the others are told where to look, and nothing else."""
    still_works(rank, size)
    if rank == size - 1:
        import atexit
        import os

        atexit._run_exitfuncs()  # as an uncaught exception ends the interpreter
        os._exit(1)
    try:
        for _ in range(200):
            still_works(rank, size)
            time.sleep(0.05)
    except Exception as error:
        return str(error)
    return ""


# --- the first call, and ends without a word -------------------------------------------------------------------------


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
        store.wait(["exchanged"])  # the rank's own connection to the store is busy until then
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


def groups_again_and_again(rank: int, size: int, port: int, rounds: int) -> list[float]:
    """The whole world ends and begins anew on the same port, with nothing of the old one left."""
    dist.destroy_process_group()
    got = []
    for _ in range(rounds):
        dist.init_process_group(
            "hccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=size,
            timeout=datetime.timedelta(seconds=20),
        )
        t = torch.ones(1, device=DEVICE)
        dist.all_reduce(t)
        got.append(t.item())
        dist.barrier()
        dist.destroy_process_group()
    return got


def aborted_in_its_first_call(rank: int, size: int) -> dict[str, object]:
    """Rank 0 waits in its first call for rank 1, which does not come; another thread of rank 0 gives the group up."""
    if rank:
        time.sleep(2)
        return {}
    began = time.monotonic()
    threading.Timer(0.5, lambda: backend().abort()).start()
    try:
        dist.all_reduce(torch.ones(4, device=DEVICE))
        return {"error": ""}
    except Exception as error:
        return {"error": str(error), "seconds": time.monotonic() - began}


def left_in_order_and_ended_at_once(rank: int, size: int) -> float:
    """Rank 0 destroys the group and ends without any handler; the others wait afterwards for what was done before."""
    t = torch.ones(100_000, device=DEVICE)
    work = dist.all_reduce(t, async_op=True)
    torch.npu.synchronize()
    if rank == 0:
        work.wait()
        dist.destroy_process_group()
        os._exit(0)
    time.sleep(1.2)
    work.wait()
    return t[0].item()


def split_below_zero(rank: int, size: int) -> str:
    try:
        dist.all_to_all_single(torch.ones(1, device=DEVICE), torch.ones(2, device=DEVICE), [-1, 2], [1, 1])
    except Exception as error:
        return str(error)
    return ""
