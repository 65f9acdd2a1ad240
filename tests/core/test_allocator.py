"""The caching allocator: csrc/core/allocator.cpp, device_cache*.cpp, block_pool.h, torch_npu/npu/memory.py."""

from __future__ import annotations

import gc
import pickle
import threading
import time

import pytest
import torch

from tests.core.tools import BUSY, Gate, output

KIB, MIB = 1 << 10, 1 << 20
DEVICE = 5  # nobody else's


@pytest.fixture(autouse=True)
def clean():
    """Each test begins with an empty cache on a device of its own."""
    with torch.npu.device(DEVICE):
        gc.collect()
        torch.npu.synchronize()
        torch.npu.empty_cache()
        torch.npu.reset_peak_memory_stats()
        torch.npu.reset_accumulated_memory_stats()
        yield
        torch.npu.memory._record_memory_history(None)


def memory(size: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(size, device=f"npu:{DEVICE}")


def stat(name: str) -> int:
    return torch.npu.memory_stats(DEVICE)[name]


@pytest.mark.parametrize(
    ("requested", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB + 1, 11 * MIB + 512, 12 * MIB),
    ],
)
def test_sizes_are_rounded_and_taken_from_segments_as_on_cuda(requested, allocated, reserved):
    keep = memory(requested)
    expected = 12 * MIB if requested == 11 * MIB + 1 else allocated  # less than 1 MiB left over is not split off
    assert torch.npu.memory_allocated() == expected
    assert torch.npu.memory_reserved() == reserved
    assert stat("requested_bytes.all.current") == requested
    del keep
    assert torch.npu.memory_allocated() == 0
    assert torch.npu.memory_reserved() == reserved


def test_nothing_costs_nothing():
    keep = memory(0)
    assert keep.data_ptr() == 0
    assert stat("allocation.all.allocated") == 0


def test_a_freed_block_is_given_out_again():
    first = memory(1000)
    address = first.data_ptr()
    del first
    assert memory(900).data_ptr() == address
    assert stat("num_device_alloc") == 1


def test_the_best_fit_wins():
    blocks = [memory(size * KIB) for size in (4, 1, 2, 1, 8, 1)]
    two = blocks[2].data_ptr()
    for hole in (4, 2, 0):  # 8, 2 and 4 KiB are free, parted by blocks in use
        blocks[hole] = None
    assert memory(2 * KIB).data_ptr() == two


def test_neighbours_are_merged():
    parts = [memory(512 * KIB) for _ in range(4)]  # the whole segment
    base = parts[0].data_ptr()
    assert torch.npu.memory_reserved() == 2 * MIB
    order = [2, 0, 3, 1]
    for index in order:
        parts[index] = None
    assert stat("inactive_split.all.current") == 0
    assert memory(MIB).data_ptr() == base
    assert stat("num_device_alloc") == 1


def test_blocks_of_another_size_class_are_not_touched():
    small, large = memory(KIB), memory(4 * MIB)
    assert stat("allocated_bytes.small_pool.current") == KIB
    assert stat("allocated_bytes.large_pool.current") == 4 * MIB
    assert stat("segment.small_pool.current") == stat("segment.large_pool.current") == 1
    del small, large


def test_each_stream_has_blocks_of_its_own():
    first = memory(1000)
    address = first.data_ptr()
    del first
    with torch.npu.stream(torch.npu.Stream(DEVICE)):
        other = memory(1000)
    assert other.data_ptr() != address
    assert memory(1000).data_ptr() == address


def test_statistics_have_every_key_of_cuda():
    keep = memory(1)
    names = set(torch.npu.memory_stats())
    for kind in (
        "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
        "inactive_split_bytes", "requested_bytes",
    ):  # fmt: skip
        for pool in ("all", "large_pool", "small_pool"):
            assert {f"{kind}.{pool}.{m}" for m in ("current", "peak", "allocated", "freed")} <= names
    for kind in ("oversize_allocations", "oversize_segments"):
        assert {f"{kind}.{m}" for m in ("current", "peak", "allocated", "freed")} <= names
    counters = {
        "num_alloc_retries",
        "num_ooms",
        "num_sync_all_streams",
        "num_device_alloc",
        "num_device_free",
        "max_split_size",
    }
    assert counters <= names
    del keep


def test_statistics_follow_what_happens():
    parts = [memory(300 * KIB) for _ in range(3)]
    assert stat("allocation.all.current") == 3
    assert stat("inactive_split_bytes.all.current") == 2 * MIB - 900 * KIB
    parts.pop(1)
    assert stat("allocation.all.freed") == 1
    assert stat("inactive_split.all.current") == 2
    assert stat("allocated_bytes.all.peak") == 900 * KIB
    assert stat("active_bytes.all.current") == 600 * KIB
    torch.npu.reset_peak_memory_stats()
    assert stat("allocated_bytes.all.peak") == 600 * KIB
    torch.npu.reset_accumulated_memory_stats()
    assert stat("allocation.all.allocated") == 0
    assert torch.npu.max_memory_allocated() == 600 * KIB
    assert torch.npu.max_memory_reserved() == 2 * MIB


def test_the_accelerators_statistics_are_the_same():
    keep = memory(3000)
    ours, theirs = torch.npu.memory_stats(DEVICE), torch.accelerator.memory_stats(DEVICE)
    assert {k: theirs[k] for k in theirs if k in ours} == {k: ours[k] for k in theirs if k in ours}
    assert torch.accelerator.memory_allocated(DEVICE) == torch.npu.memory_allocated(DEVICE) == 3072
    del keep


def test_empty_cache_gives_free_segments_back_and_only_these():
    keep, gone = memory(MIB), memory(30 * MIB)
    del gone
    assert torch.npu.memory_reserved() == 32 * MIB
    free, _ = torch.npu.mem_get_info(DEVICE)
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == 2 * MIB
    assert torch.npu.mem_get_info(DEVICE)[0] >= free
    del keep


def test_a_recorded_stream_keeps_a_block_from_reuse_until_it_passed():
    tensor = torch.empty(1000, device=f"npu:{DEVICE}")
    address, stream = tensor.data_ptr(), torch.npu.Stream(DEVICE)
    gate = Gate(stream)
    tensor.record_stream(stream)
    del tensor
    assert stat("active.all.current") == 1 and stat("allocation.all.current") == 0
    assert torch.empty(1000, device=f"npu:{DEVICE}").data_ptr() != address
    gate.open()
    stream.synchronize()
    again = [torch.empty(1000, device=f"npu:{DEVICE}") for _ in range(3)]
    assert address in [t.data_ptr() for t in again]


def test_memory_comes_back_from_a_stream_that_failed_and_works_again():
    """Its event can be recorded only once the program was told: when memory is wanted, or the cache is emptied."""
    failing, other = torch.npu.Stream(DEVICE), torch.npu.Stream(DEVICE)

    def used_on_a_failed_stream() -> int:
        block = torch.empty(10 * MIB, dtype=torch.uint8, device=f"npu:{DEVICE}")
        with torch.npu.stream(failing):
            torch.arange(4, device=f"npu:{DEVICE}")[torch.tensor([99], device=f"npu:{DEVICE}")]
        time.sleep(0.2)  # until it has failed; not asked, which would tell
        block.record_stream(other), block.record_stream(failing)
        address, block = block.data_ptr(), None
        with pytest.raises(RuntimeError):
            failing.synchronize()
        return address

    address, tries = used_on_a_failed_stream(), []
    while len(tries) < 3 and address not in [t.data_ptr() for t in tries]:
        tries.append(memory(10 * MIB)), torch.npu.synchronize()
    assert address in [t.data_ptr() for t in tries]
    used_on_a_failed_stream(), tries.clear()
    torch.npu.empty_cache()
    assert (stat("active_bytes.all.current"), torch.npu.memory_reserved()) == (0, 0)


def test_recording_its_own_stream_changes_nothing():
    tensor = torch.empty(1000, device=f"npu:{DEVICE}")
    address = tensor.data_ptr()
    tensor.record_stream(torch.npu.current_stream(DEVICE))
    del tensor
    assert torch.empty(1000, device=f"npu:{DEVICE}").data_ptr() == address


def test_out_of_memory_is_pytorchs_own_error_and_the_process_goes_on():
    before = memory(1000)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        memory(1 << 45)
    text = str(caught.value)
    assert f"npu:{DEVICE}" in text and "Tried to allocate 32768.00 GiB" in text and "is free" in text
    assert stat("num_ooms") == 1
    assert memory(1000).data_ptr() != before.data_ptr()


def test_more_than_an_exabyte_is_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="more than 1EB"):
        memory(1 << 61)


def test_the_cache_is_emptied_before_memory_runs_out():
    torch.npu.set_per_process_memory_fraction(1.0, DEVICE)
    total = torch.npu.mem_get_info(DEVICE)[1]
    try:
        torch.npu.set_per_process_memory_fraction(100 * MIB / total, DEVICE)
        cached = memory(60 * MIB)
        del cached
        assert torch.npu.memory_reserved() == 60 * MIB
        keep = memory(80 * MIB)
        assert torch.npu.memory_reserved() == 80 * MIB
        assert stat("num_alloc_retries") == 1
        with pytest.raises(torch.OutOfMemoryError, match="allowed"):
            memory(40 * MIB)
        del keep
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, DEVICE)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(ValueError, match="Invalid fraction"):
        torch.npu.set_per_process_memory_fraction(fraction)


def test_the_devices_capacity_is_a_clean_limit():
    text = output(
        """
        import torch
        try:
            torch.UntypedStorage(200 << 20, device="npu")
        except torch.OutOfMemoryError as error:
            print("128.00 MiB" in str(error))
        print(torch.UntypedStorage(50 << 20, device="npu").nbytes() >> 20)
        """,
        ANYCEND_MEMORY="128M",
    )
    assert text.split() == ["True", "50"]


def test_raw_pointers_come_and_go():
    pointer = torch.npu.caching_allocator_alloc(1000, DEVICE)
    assert torch.npu.memory_allocated() == 1024
    torch.npu.caching_allocator_delete(pointer)
    assert torch.npu.memory_allocated() == 0
    with pytest.raises(ValueError, match="was not allocated"):
        torch.npu.caching_allocator_delete(pointer)


def test_a_snapshot_shows_every_block():
    parts = [memory(KIB), memory(2 * KIB), memory(5 * MIB)]
    parts[0] = None
    segments = [s for s in torch.npu.memory_snapshot() if s["device"] == DEVICE]
    assert sorted((s["segment_type"], s["total_size"]) for s in segments) == [("large", 20 * MIB), ("small", 2 * MIB)]
    small = next(s for s in segments if s["segment_type"] == "small")
    assert [(b["size"], b["state"]) for b in small["blocks"]] == [
        (KIB, "inactive"), (2 * KIB, "active_allocated"), (2 * MIB - 3 * KIB, "inactive"),
    ]  # fmt: skip
    assert small["allocated_size"] == small["active_size"] == small["requested_size"] == 2 * KIB


def test_the_history_is_readable_by_pytorchs_memory_viewer(tmp_path):
    from torch.cuda import _memory_viz

    torch.npu.memory._record_memory_history(max_entries=100)
    keep = memory(KIB)
    gone = memory(2 * KIB)
    del gone
    torch.npu.memory._dump_snapshot(str(path := tmp_path / "snapshot.pickle"))
    snapshot = pickle.loads(path.read_bytes())
    actions = [entry["action"] for entry in snapshot["device_traces"][DEVICE]]
    assert actions[:5] == ["segment_alloc", "alloc", "alloc", "free_requested", "free_completed"]
    frames = snapshot["device_traces"][DEVICE][1]["frames"]
    assert any(frame["name"] == "memory" and frame["filename"] == __file__ for frame in frames)
    reserved = sum(segment["total_size"] for segment in snapshot["segments"]) / MIB  # other devices' too
    assert f"total_reserved: {reserved:.1f}MiB" in _memory_viz.segsum(snapshot)
    assert "[1024:2.0KiB]" in _memory_viz.trace({**snapshot, "device_traces": [snapshot["device_traces"][DEVICE]]})
    times = [entry["time_us"] / 1e6 for entry in snapshot["device_traces"][DEVICE]]
    assert times == sorted(times) and abs(times[0] - time.time()) < 60
    assert "<!DOCTYPE html>" in _memory_viz.trace_plot(snapshot)
    del keep


def test_one_device_may_record_alone():
    other = torch.device("npu", (torch.npu.current_device() + 1) % torch.npu.device_count())
    torch.npu.memory._record_memory_history(max_entries=100, device=other)
    torch.ones(4, device=other), torch.ones(4, device="npu")
    traces = torch.npu.memory._snapshot()["device_traces"]
    assert [index for index, trace in enumerate(traces) if trace] == [other.index]
    torch.npu.memory._record_memory_history(None)
    only = torch.npu.memory._snapshot(device=other)
    assert {segment["device"] for segment in only["segments"]} == {other.index}


def test_the_history_keeps_the_last_entries():
    torch.npu.memory._record_memory_history(max_entries=4, context=None)
    for size in range(1, 6):
        memory(size * KIB)
    trace = torch.npu.memory._snapshot()["device_traces"][DEVICE]
    assert [(e["action"], e["size"]) for e in trace[-4:]][0][0] in ("alloc", "free_requested", "free_completed")
    assert len(trace) == 4


def test_the_summary_is_a_table():
    keep = memory(3 * MIB)
    text = torch.npu.memory_summary(DEVICE)
    assert "3072 KiB" in text and f"device ID {DEVICE}" in text
    assert len({len(line) for line in text.strip().splitlines()}) == 1
    assert len(torch.npu.memory_summary(DEVICE, abbreviated=True)) < len(text)
    del keep


def test_without_caching_memory_goes_straight_back():
    text = output(
        """
        import torch
        x = torch.UntypedStorage(1000, device="npu")
        print(x.device, torch.npu.memory_reserved())
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
    )
    assert text.split() == ["npu:0", "0"]


def test_without_caching_a_free_waits_for_the_memorys_own_device():
    text = output(
        BUSY
        + """
import torch
x = torch.UntypedStorage(1000, device="npu:1")
stream = torch.npu.Stream(1)
torch.npu.set_device(0)
busy(stream, 1)
y = torch.UntypedStorage(1000, device="npu:0")  # this thread's device in CANN, too
del x
print(stream.query(), torch.npu.current_device())
""",
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
    )
    assert text.split() == ["True", "0"]


def test_allocation_from_many_threads():
    errors = []

    def work(seed: int) -> None:
        try:
            generator, held = torch.Generator().manual_seed(seed), []
            for _ in range(500):
                size = int(torch.randint(1, 3 * MIB, (1,), generator=generator))
                held.append((memory(size), size))
                if len(held) > 8:
                    storage, size = held.pop(size % len(held))
                    assert storage.nbytes() == size
        except Exception as error:  # reported by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert torch.npu.memory_allocated(DEVICE) == 0
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved(DEVICE) == 0
