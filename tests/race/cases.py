"""Seeded races, each with its mended twin. `@bug(words...)` marks a bug and says what its report must contain;
`@mended` marks the twin, which differs by the missing edge. Who uses it: test_race.py, with ANYCEND_CHECK=race.
Long because it is a table: a row is a bug and its twin.

    python -m tests.race.cases [--table]      prints JSON: name -> {"bug": [reports], "mended": [reports]}, or a table
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import threading
import time

import torch
import torch.distributed as dist
import typing_extensions

import torch_npu  # noqa: F401
from tests import seeded

N = 300_000  # elements: no block of another size is near
TABLE = seeded.Table()
BUGS, TWINS, bug, mended = TABLE.bugs, TABLE.twins, TABLE.bug, TABLE.mended


def main_stream():
    return torch.npu.current_stream()


def ones():
    x = torch.ones(N, device="npu")
    torch.npu.synchronize()
    return x


@bug("aclnnMul", "does not wait", "wait_stream")
def read_too_early():
    x, s = ones(), torch.npu.Stream()
    x.add_(1)
    with torch.npu.stream(s):
        x * 2


@bug("aclnnMul", "does not wait")
def read_too_early_through_a_wrapper():
    x, s = ones(), torch.npu.Stream()
    x.add_(1)
    with torch.npu.stream(s):
        typing_extensions.deprecated("as torch.distributed's are")(functools.partial(torch.mul, x))(2)


@mended
def read_too_early_through_a_wrapper_mended():
    x, s = ones(), torch.npu.Stream()
    x.add_(1)
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        typing_extensions.deprecated("as torch.distributed's are")(functools.partial(torch.mul, x))(2)


@mended
def read_too_early_mended():
    x, s = ones(), torch.npu.Stream()
    x.add_(1)
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        x * 2


@bug("aclnnMul", "writes", "does not wait")
def overwritten_while_read():
    x, s = ones(), torch.npu.Stream()
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        x * 2
    x.zero_()


@mended
def overwritten_while_read_mended():
    x, s = ones(), torch.npu.Stream()
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        x * 2
    main_stream().wait_stream(s)
    x.zero_()


@bug("writes", "does not wait")
def two_writers():
    x, a, b = ones(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(a):
        x.add_(1)
    with torch.npu.stream(b):
        x.mul_(2)


@mended
def two_writers_mended():
    x, a, b = ones(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(a):
        x.add_(1)
    b.wait_stream(a)
    with torch.npu.stream(b):
        x.mul_(2)


@bug("does not wait", "wait_event")
def result_used_too_early():
    x, s = ones(), torch.npu.Stream()
    with torch.npu.stream(s):
        y = x * 2
    y.sum()


@mended
def result_used_too_early_mended():
    x, s = ones(), torch.npu.Stream()
    with torch.npu.stream(s):
        y = x * 2
    main_stream().wait_stream(s)
    y.sum()


@bug("does not wait")
def event_recorded_too_early():
    x, s, e = ones(), torch.npu.Stream(), torch.npu.Event()
    e.record()
    x.add_(1)
    s.wait_event(e)
    with torch.npu.stream(s):
        x * 2


@mended
def event_recorded_too_early_mended():
    x, s, e = ones(), torch.npu.Stream(), torch.npu.Event()
    x.add_(1)
    e.record()
    s.wait_event(e)
    with torch.npu.stream(s):
        x * 2


@bug("does not wait")
def event_waited_for_by_the_wrong_stream():
    x, s, t, e = ones(), torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event()
    x.add_(1)
    e.record()
    t.wait_event(e)
    with torch.npu.stream(s):
        x * 2


@mended
def event_waited_for_by_the_wrong_stream_mended():
    x, s, t, e = ones(), torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event()
    x.add_(1)
    e.record()
    s.wait_event(e)
    with torch.npu.stream(s):
        x * 2
    t.wait_event(e)


@bug("does not wait")
def event_recorded_anew():
    x, a, b, e = ones(), torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event()
    with torch.npu.stream(a):
        x.add_(1)
        e.record()
    e.record(b)
    main_stream().wait_event(e)
    x.sum()


@mended
def event_recorded_anew_mended():
    x, a, b, e, f = ones(), torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event(), torch.npu.Event()
    with torch.npu.stream(a):
        x.add_(1)
        e.record()
    f.record(b)
    main_stream().wait_event(e)
    x.sum()


@bug("does not wait")
def host_waited_for_the_wrong_stream():
    x, a, b = ones(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(a):
        x.add_(1)
    b.synchronize()
    x.sum()


@mended
def host_waited_for_the_wrong_stream_mended():
    x, a, _b = ones(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(a):
        x.add_(1)
    a.synchronize()
    x.sum()


@bug("freed while", "record_stream")
def freed_without_record_stream():
    x, s = ones(), torch.npu.Stream()
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        x * 2
    del x
    [torch.zeros(N, device="npu") for _ in range(8)]


@mended
def freed_without_record_stream_mended():
    x, s = ones(), torch.npu.Stream()
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        x * 2
    x.record_stream(s)
    del x
    [torch.zeros(N, device="npu") for _ in range(8)]


class Own(torch.Tensor):
    pass


# What the host reads of pinned memory while a copy into it may run: how, and what the report calls it.
HOST_READS = {
    "host_reads": (lambda h: h.sum(), "synchronize()"),
    "host_lists": (lambda h: h[:2].tolist(), "Tensor.tolist"),
    "host_lists_its_own_kind": (lambda h: h.as_subclass(Own)[:2].tolist(), "Tensor.tolist"),
    "host_takes_a_number": (lambda h: h[5].item(), "aten::_local_scalar_dense"),
    "host_saves": (lambda h: torch.save(h, io.BytesIO()), "torch.save"),
    "host_saves_in_the_old_format": (
        lambda h: torch.save(h, io.BytesIO(), _use_new_zipfile_serialization=False), "torch.save",
    ),
    "host_reads_a_list": (lambda h: torch.cat([h, h]), "aten::cat"),
    "host_stacks": (lambda h: torch.stack([h, h]), "aten::cat"),
    "host_takes_a_step": (lambda h: torch._foreach_add_([h], 1.0), "aten::"),
    "host_takes_a_factor": (lambda h: torch.zeros(N, device="npu") + h[0], "aten::add"),
    "host_pickles": (lambda h: pickle.dumps(h), "torch.save"),
}  # fmt: skip


def host_read(read, waits: bool):
    x, h = ones(), torch.empty(N, pin_memory=True)
    h.copy_(x, non_blocking=True)
    if waits:
        main_stream().synchronize()
    read(h)


for host_name, (host_call, said) in HOST_READS.items():
    BUGS[f"{host_name}_too_early"] = functools.partial(host_read, host_call, False), ("the host does not wait", said)
    TWINS[f"{host_name}_too_early"] = functools.partial(host_read, host_call, True)


@bug("aclnnAdds on stream", "strided")
def columns_of_both_streams():
    x, s = torch.zeros(300, 1000, device="npu"), torch.npu.Stream()
    torch.npu.synchronize()
    for i in range(300):
        x[:, i].add_(1)
        x[i].mul_(2)
    with torch.npu.stream(s):
        x[:, 7].add_(1)


@mended
def columns_of_both_streams_mended():
    x, s = torch.zeros(300, 1000, device="npu"), torch.npu.Stream()
    torch.npu.synchronize()
    for i in range(300):
        x[:, i].add_(1)
    with torch.npu.stream(s):
        for i in range(300, 600):
            x[:, i].add_(1)


@bug("the host does not wait", "aten::fill_")
def host_refills_too_early():
    x, h = ones(), torch.ones(N).pin_memory()
    x.copy_(h, non_blocking=True)
    h.fill_(2)


@mended
def host_refills_too_early_mended():
    x, h, e = ones(), torch.ones(N).pin_memory(), torch.npu.Event()
    x.copy_(h, non_blocking=True)
    e.record()
    e.synchronize()
    h.fill_(2)


@bug("aclrtMemcpyAsync", "does not wait")
def prefetched_batch_used_too_early():
    h, s = torch.ones(N).pin_memory(), torch.npu.Stream()
    with torch.npu.stream(s):
        x = h.to("npu", non_blocking=True)
    x.sum()


@mended
def prefetched_batch_used_too_early_mended():
    h, s = torch.ones(N).pin_memory(), torch.npu.Stream()
    with torch.npu.stream(s):
        x = h.to("npu", non_blocking=True)
    main_stream().wait_stream(s)
    x.record_stream(main_stream())
    x.sum()


@bug("does not wait")
def slices_overlap():
    x, s = ones(), torch.npu.Stream()
    x[: N // 2 + 1].add_(1)
    with torch.npu.stream(s):
        x[N // 2 :].add_(1)


@mended
def slices_overlap_mended():
    x, s = ones(), torch.npu.Stream()
    x[: N // 2].add_(1)
    with torch.npu.stream(s):
        x[N // 2 :].add_(1)


@bug("strided", "does not wait")
def columns_overlap():
    m, s = ones().view(-1, 4), torch.npu.Stream()
    m[:, :3].add_(1)
    with torch.npu.stream(s):
        m[:, 2:].add_(1)


@mended
def columns_overlap_mended():
    m, s = ones().view(-1, 4), torch.npu.Stream()
    m[:, :2].add_(1)
    with torch.npu.stream(s):
        m[:, 2:].add_(1)


def captured():
    x, g = ones(), torch.npu.NPUGraph()
    with torch.npu.graph(g):
        y = x * 2
    torch.npu.synchronize()
    return x, y, g


@bug("does not wait")
def graphs_result_used_too_early():
    x, y, g = captured()
    s = torch.npu.Stream()
    with torch.npu.stream(s):
        g.replay()
    y.sum()


@mended
def graphs_result_used_too_early_mended():
    x, y, g = captured()
    s = torch.npu.Stream()
    with torch.npu.stream(s):
        g.replay()
    main_stream().wait_stream(s)
    y.sum()


@bug("does not wait")
def graphs_input_filled_too_late():
    x, y, g = captured()
    s = torch.npu.Stream()
    x.fill_(3)
    with torch.npu.stream(s):
        g.replay()


@mended
def graphs_input_filled_too_late_mended():
    x, y, g = captured()
    s = torch.npu.Stream()
    x.fill_(3)
    s.wait_stream(main_stream())
    with torch.npu.stream(s):
        g.replay()


def captured_and_replayed():
    """Replayed on a stream, which then got something else: the next replay, on another, waits for the replay alone."""
    _, y, g = captured()
    first, second = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(first):
        g.replay()
        torch.npu.synchronize()
        y.add_(1)
    return g, first, second


@bug("does not wait")
def graph_replayed_on_another_stream():
    g, _, second = captured_and_replayed()
    with torch.npu.stream(second):
        g.replay()


@mended
def graph_replayed_on_another_stream_mended():
    g, first, second = captured_and_replayed()
    second.wait_stream(first)
    with torch.npu.stream(second):
        g.replay()


@bug("in the captured graph", "does not wait")
def branches_of_a_graph():
    x, g, s = ones(), torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(g):
        s.wait_stream(main_stream())
        with torch.npu.stream(s):
            x.sum()
        x.mul_(2)
        main_stream().wait_stream(s)


@mended
def branches_of_a_graph_mended():
    x, g, s = ones(), torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(g):
        s.wait_stream(main_stream())
        with torch.npu.stream(s):
            x.sum()
        main_stream().wait_stream(s)
        x.mul_(2)


@bug("in the captured graph", "does not wait")
def fork_before_the_work_of_a_graph():
    x, g, s = ones(), torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(g):
        s.wait_stream(main_stream())
        y = x * 2
        with torch.npu.stream(s):
            z = y + 1
        main_stream().wait_stream(s)
    del z


@mended
def fork_before_the_work_of_a_graph_mended():
    """Each of the two streams takes over what was done before, a third one from the second."""
    x, g, s, t = ones(), torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.graph(g):
        y = x * 2
        s.wait_stream(main_stream())
        with torch.npu.stream(s):
            z = y + 1
        t.wait_event(s.record_event())
        with torch.npu.stream(t):
            z.mul_(2)
        s.wait_stream(t)
        with torch.npu.stream(s):
            z.add_(y)
        main_stream().wait_stream(s)
        y.add_(z)


@bug("aclrtMemcpyAsync", "does not wait")
def copied_while_overwritten():
    x, y, s = ones(), ones(), torch.npu.Stream()
    with torch.npu.stream(s):
        y.copy_(x)
    x.mul_(3)


@mended
def copied_while_overwritten_mended():
    x, y, s = ones(), ones(), torch.npu.Stream()
    with torch.npu.stream(s):
        y.copy_(x)
    main_stream().wait_stream(s)
    x.mul_(3)


@bug("aclrtMemcpyAsync", "npu:0", "does not wait")
def peer_reads_too_early():
    x, s = ones(), torch.npu.Stream("npu:0")
    with torch.npu.stream(s):
        x.add_(1)
    x.to("npu:1", non_blocking=True)
    torch.npu.synchronize(1)


@mended
def peer_reads_too_early_mended():
    x, s = ones(), torch.npu.Stream("npu:0")
    with torch.npu.stream(s):
        x.add_(1)
    main_stream().wait_stream(s)
    x.to("npu:1", non_blocking=True)
    torch.npu.synchronize(1)


def in_a_thread(body):
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


@bug("does not wait")
def joining_a_thread_is_no_order():
    x, s = ones(), torch.npu.Stream()

    def work():
        with torch.npu.stream(s):
            x.add_(1)

    in_a_thread(work)
    x.sum()


@mended
def joining_a_thread_is_no_order_mended():
    x, s = ones(), torch.npu.Stream()

    def work():
        with torch.npu.stream(s):
            x.add_(1)
        s.synchronize()

    in_a_thread(work)
    x.sum()


@bug("HcclAllReduce", "does not wait")
def collective_not_waited_for():
    x = ones()
    work = dist.all_reduce(x, async_op=True)
    x.mul_(2)
    work.wait()


@mended
def collective_not_waited_for_mended():
    x = ones()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    x.mul_(2)


@bug("HcclAllReduce", "does not wait")
def collective_whose_end_only_the_watchdog_saw():
    x = ones()
    work = dist.all_reduce(x, async_op=True)
    time.sleep(0.5)
    x.mul_(2)
    work.wait()


@mended
def collective_whose_end_only_the_watchdog_saw_mended():
    x = ones()
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        time.sleep(0.1)
    x.mul_(2)


def beside_a_freed_block(kind: str, waits: bool):
    """An allocator that sees when memory may be reused sees it for itself, not for the program."""
    device, host = [torch.ones(N, device="npu")], [torch.ones(N).pin_memory()]
    x, s = ones(), torch.npu.Stream()
    with torch.npu.stream(s):
        x.add_(1)
        if kind == "device":
            device[0].mul_(2)
            device[0].record_stream(s)
            device.clear()
        else:
            device[0].copy_(host.pop(), non_blocking=True)
    time.sleep(0.05)
    again = [torch.zeros(N, device="npu") for _ in range(8)], torch.empty(N, pin_memory=True).fill_(2)
    if waits:
        main_stream().wait_stream(s)
    x.mul_(2) if kind == "device" else x.neg_()  # a pair of operators and lines is reported once
    return again


for kind in ("device", "pinned"):
    BUGS[f"beside_a_freed_{kind}_block"] = functools.partial(beside_a_freed_block, kind, False), ("does not wait",)
    TWINS[f"beside_a_freed_{kind}_block"] = functools.partial(beside_a_freed_block, kind, True)


@bug("does not wait", "(backward)")
def gradient_used_too_early():
    p, s = torch.ones(N, device="npu", requires_grad=True), torch.npu.Stream()
    torch.npu.synchronize()
    with torch.npu.stream(s):
        loss = (p * p).sum()
        loss.backward()
    p.grad.mul_(2)


@mended
def gradient_used_too_early_mended():
    p, s = torch.ones(N, device="npu", requires_grad=True), torch.npu.Stream()
    torch.npu.synchronize()
    with torch.npu.stream(s):
        loss = (p * p).sum()
        loss.backward()
    main_stream().wait_stream(s)
    p.grad.mul_(2)


@bug("does not wait")
def optimizer_on_another_stream():
    p, s = torch.nn.Parameter(ones()), torch.npu.Stream()
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.grad = ones()
    with torch.npu.stream(s):
        optimizer.step()
    (p * 2).sum()


@mended
def optimizer_on_another_stream_mended():
    p, s = torch.nn.Parameter(ones()), torch.npu.Stream()
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.grad = ones()
    with torch.npu.stream(s):
        optimizer.step()
    main_stream().wait_stream(s)
    (p * 2).sum()


def found_by(case) -> list[str]:
    torch.npu.synchronize()
    before = len(torch.npu.race_reports())
    case()
    torch.npu.synchronize()
    return torch.npu.race_reports()[before:]


def main() -> None:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    seeded.show({n: {"bug": found_by(BUGS[n][0]), "mended": found_by(TWINS[n])} for n in BUGS})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
