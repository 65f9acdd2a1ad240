"""When memory of shared tensors goes back: after all who have it let go or died, and not before."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

import pytest
import torch

from tests.sharing import programs
from tests.sharing.peer import SPAWN, Peer
from torch_npu import _C

DEV = "npu"
MB = 1 << 20


def used() -> int:
    gc.collect()
    torch.npu.ipc_collect()
    return torch.npu.memory_allocated()


def eventually(done: Callable[[], bool]) -> bool:
    """Another process lets go in its own time."""
    end = time.monotonic() + 30
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_the_owners_memory_waits_for_the_receiver(peer: Peer) -> None:
    start = used()
    tensor = torch.full((MB,), 5.0, device=DEV)
    pointer = tensor.data_ptr()
    peer.keep("t", tensor)
    del tensor
    assert used() == start + 4 * MB
    others = [torch.zeros(MB, device=DEV) for _ in range(3)]
    assert all(other.data_ptr() != pointer for other in others)
    assert peer.values_of("t")[:2] == [5.0, 5.0]
    del others
    peer.forget("t")
    assert eventually(lambda: used() == start)
    assert torch.full((MB,), 1.0, device=DEV).data_ptr() == pointer, "the block is used again"


def test_what_was_let_go_of_comes_back_unasked(peer: Peer) -> None:
    start = used()
    for i in range(20):
        assert peer.describe(torch.full((MB // 4,), float(i), device=DEV)[:2])["values"] == [float(i)] * 2
    assert torch.npu.memory_allocated() <= start + 8 * MB, "messages take back what earlier ones were about"
    assert eventually(lambda: used() == start)


def test_memory_goes_back_before_there_is_none(peer: Peer) -> None:
    start = used()
    free, total = torch.npu.mem_get_info()
    torch.npu.set_per_process_memory_fraction((torch.npu.memory_reserved() + 300 * MB) / total)
    try:
        for _ in range(3):
            big = torch.ones(50 * MB, device=DEV)  # 200 MB: two of them are too many
            peer.describe(big[:1])
            del big
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    assert eventually(lambda: used() == start)


def test_work_that_the_receiver_has_begun_keeps_the_memory(peer: Peer) -> None:
    tensor = torch.zeros(4, device=DEV)
    peer.stay_busy_with(tensor, 30)
    assert eventually(lambda: used() >= 0 and _C._outstanding_messages() == 0)
    assert tensor.tolist() == [1.0] * 4


def test_record_stream_of_a_shared_tensor(peer: Peer) -> None:
    tensor = torch.ones(MB, device=DEV)
    peer.describe(tensor[:1])
    side = torch.npu.Stream()
    tensor.record_stream(side)
    assert tensor.sum().item() == MB


def test_a_message_is_good_for_one_receiver(peer: Peer) -> None:
    tensor = torch.ones(3, device=DEV)
    message = _C._share_storage(tensor.untyped_storage(), 0)
    assert _C._receive_storage(message).data_ptr() == tensor.data_ptr()
    torch.npu.ipc_collect()
    with pytest.raises(RuntimeError, match="send the tensor once for each receiver"):
        _C._receive_storage(message)
    with pytest.raises(ValueError, match="not a message about a shared tensor"):
        _C._receive_storage(b"something else, which is long enough to be read as one of them")
    with pytest.raises(ValueError, match="expected a storage of an npu device"):
        _C._share_storage(torch.ones(3).untyped_storage(), 0)


@pytest.mark.parametrize("offset", [1 << 40, (1 << 64) - 4])
def test_a_message_about_memory_outside_its_region(offset: int) -> None:
    tensor = torch.ones(3, device=DEV)
    message = bytearray(_C._share_storage(tensor.untyped_storage(), 0))
    message[56:64] = offset.to_bytes(8, "little")  # behind the version and two tickets
    with pytest.raises(ValueError, match="does not lie in the memory that it names"):
        _C._receive_storage(bytes(message))
    _C._give_up_messages([slot for slot, _ in _C._waiting_messages()])


def test_messages_nobody_can_receive_are_given_up() -> None:
    start = used()
    pipe, queue, simple = SPAWN.Pipe(), SPAWN.Queue(), SPAWN.SimpleQueue()
    pipe[0].send(torch.ones(MB, device=DEV))
    queue.put(torch.ones(MB, device=DEV))
    simple.put(torch.ones(MB, device=DEV))
    assert eventually(lambda: len(_C._waiting_messages()) == 3)
    assert used() == start + 12 * MB, "they can be received still"
    assert simple.get().shape == (MB,)
    simple.put(torch.ones(MB, device=DEV))
    pipe[1].close()
    assert used() == start + 8 * MB
    queue.close()
    queue.join_thread()
    del queue, simple
    assert used() == start
    assert programs.shared_descriptors().count("/memfd:anycend-shared (deleted)") == 1


def test_a_killed_receiver_and_a_killed_owner_leave_nothing() -> None:
    torch.ones(1, device=DEV)
    start, descriptors = used(), programs.shared_descriptors()
    victim = Peer()
    tensor = torch.full((MB,), 3.0, device=DEV)
    victim.keep("t", tensor)
    theirs = victim.give(MB, 8.0)
    del tensor
    assert used() == start + 4 * MB
    victim.send("echo", torch.ones(MB, device=DEV))  # nobody reads the answer
    lost = victim.process.pid
    victim.kill()
    assert used() == start
    assert theirs[:3].tolist() == [8.0] * 3 and theirs.sum().item() == 8.0 * MB, "who has a tensor keeps it"
    with pytest.raises(RuntimeError, match=f"process {lost}, whose tensor this is, has ended"):
        message = _C._share_storage(theirs.untyped_storage(), 0)
        receiver = Peer()
        try:
            receiver.keep("t", theirs)
        finally:
            receiver.close()
    _C._give_up_messages([slot for slot, _ in _C._waiting_messages()])
    del theirs, message
    assert used() == start
    assert set(programs.shared_descriptors()) - set(descriptors) <= {"/memfd:anycend-shared (deleted)"}
    assert len(programs.shared_descriptors()) <= len(descriptors) + 1, "but for the table of what is shared"
    assert not [name for name in os.listdir("/dev/shm") if "anycend" in name]


def test_expandable_segments_are_shared(peer: Peer) -> None:
    torch.npu.empty_cache()
    torch.npu.memory._set_allocator_settings("expandable_segments:True")
    try:
        tensor = torch.arange(8 * MB, device=DEV, dtype=torch.float32)  # several pieces
        assert peer.describe(tensor[:: 2 * MB])["values"] == [0.0, 2.0 * MB, 4.0 * MB, 6.0 * MB]
        peer.write(tensor[-2:], 7.0)
        assert tensor[-3:].tolist() == [8.0 * MB - 3, 7.0, 7.0]
    finally:
        torch.npu.memory._set_allocator_settings("expandable_segments:False")
