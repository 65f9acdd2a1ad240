"""Programs about ends and settings of groups: what must not hang, be told, and be usable again."""

from __future__ import annotations

import datetime
import json
import os
import threading
import time

import torch
import torch.distributed as dist

from tests.distributed.groups import DEVICE, backend, still_works, until

# --- ends -------------------------------------------------------------------------------------------------------------


def aborted(rank: int, size: int) -> dict:
    """Rank 0 waits for a message that nobody sends, and gives up."""
    still_works(rank, size)
    if rank:
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
        return {}
    t, store = torch.ones(100_000, device=DEVICE), dist.distributed_c10d._get_default_store()
    began = time.monotonic()
    work = dist.all_reduce(t, async_op=True)
    store.set(f"called/{rank}", "1")
    if rank == 0:
        until(store, [f"called/{r}" for r in range(size - 1)])
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
    """The group's timeout is 3 s; a later one of 60 s counts, also for a communicator that exists."""
    still_works(rank, size)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=60))
    if rank == size - 1:
        time.sleep(6)
    try:
        still_works(rank, size)
    except Exception as error:
        return str(error)
    return ""


def shorter_timeout(rank: int, size: int) -> tuple[str, float]:
    still_works(rank, size)
    backend()._set_default_timeout(datetime.timedelta(seconds=1))
    if rank == size - 1:
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

    other, store = dist.new_group(), dist.distributed_c10d._get_default_store()
    still_works(rank, size)
    still_works(rank, size, other)
    if rank == 0:
        try:  # alone, until the group's time is over
            still_works(rank, size)
        except Exception:
            pass
        else:
            raise AssertionError("one rank alone cannot reduce")
        store.set(f"told/{rebuild}", "1")
    else:
        until(store, [f"told/{rebuild}"])
        try:  # the error of rank 0 is everybody's
            still_works(rank, size)
        except Exception:
            pass
    store.set(f"here/{rebuild}/{rank}", "1")
    until(store, [f"here/{rebuild}/{r}" for r in range(size)])
    try:
        torch.npu.synchronize()
    except RuntimeError:
        pass
    reinit_process_group(None, rebuild)
    still_works(rank, size)
    still_works(rank, size, other)


def restarted(rank: int, size: int, rebuild: bool) -> dict[str, object]:
    """Rank 0 calls alone and its device is stopped; both ranks restart theirs and make the group anew."""
    from torch_npu.distributed import reinit_process_group

    still_works(rank, size)
    device, error, began = torch.npu.current_device(), "", time.monotonic()
    if rank == 0:
        threading.Timer(0.3, torch.npu.stop_device, (device,)).start()
        try:
            dist.all_reduce(torch.ones(4, device=DEVICE))
            torch.npu.synchronize()
        except RuntimeError as e:
            error = str(e)
    seconds = time.monotonic() - began
    store = dist.distributed_c10d._get_default_store()
    store.set(f"restart/{rebuild}/{rank}", "1")
    until(store, [f"restart/{rebuild}/{r}" for r in range(size)])
    if rank:
        torch.npu.stop_device(device)
    torch.npu.restart_device(device)
    reinit_process_group(None, rebuild)
    still_works(rank, size)
    return {"error": error, "seconds": seconds}


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


def left_while_it_looks(rank: int, size: int) -> str:
    """Groups end while their mailboxes ask a store of Python's, for whose answers the interpreter is needed."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    class Slow(dist.Store):
        def add(self, key, value):
            time.sleep(0.05)
            return 0

    for i in range(8):
        store = Slow()
        group = ProcessGroupHCCL(store, 0, 3, ProcessGroupHCCL.Options())
        time.sleep(0.02 * i)
        del group
    return "done"


def split_below_zero(rank: int, size: int) -> str:
    try:
        dist.all_to_all_single(torch.ones(1, device=DEVICE), torch.ones(2, device=DEVICE), [-1, 2], [1, 1])
    except Exception as error:
        return str(error)
    return ""


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
    until(store, ["told"])
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
    """What the flight recorder knows of four calls."""
    import pickle

    from torch_npu._C import _distributed_c10d as c

    t = torch.ones(3, 4, device=DEVICE)
    dist.all_reduce(t)
    dist.broadcast(t, 0)
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(t, 1 - rank)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if rank == 0 else dist.irecv, t, 1 - rank)]):
            work.wait()
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
