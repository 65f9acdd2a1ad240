"""Handles that programs carry themselves: torch.multiprocessing.reductions.reduce_tensor, and what it is made of."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch.multiprocessing import reductions

from tests.sharing import handle_programs as theirs
from tests.sharing import programs
from tests.sharing.handle_programs import There
from tests.sharing.peer import Peer
from tests.sharing.test_reductions import VIEWS, base
from torch_npu.multiprocessing import reductions as ours

# The positions that programs read or change, by what CUDA's have there.
DEVICE, HANDLE, BYTES = 6, 7, 8


def plain(tensor: torch.Tensor) -> bytes:
    """The function and its arguments as any pickler writes them: there is nothing of multiprocessing in it."""
    return pickle.dumps(reductions.reduce_tensor(tensor))


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_handle_is_the_same_tensor_in_another_process(peer: Peer, name: str) -> None:
    tensor = VIEWS[name]()
    assert peer.echo(There(theirs.describe_handle, plain(tensor))) == programs.describe(tensor)


def test_a_handle_is_memory_and_no_copy(peer: Peer) -> None:
    tensor = base()
    before = peer.memory()
    message = plain(tensor)
    assert len(message) < 2000
    peer.echo(There(theirs.keep, "t", message))
    assert peer.memory() == before, "the other process allocated"
    tensor[0, 0] = -1
    torch.npu.synchronize()
    assert peer.values_of("t")[0][0] == -1.0
    peer.echo(There(theirs.write_kept, "t", 7.0))
    assert tensor.unique().tolist() == [7.0]
    peer.forget("t")


def test_arguments_are_where_programs_look_for_them() -> None:
    tensor = base()[1:]
    function, values = reductions.reduce_tensor(tensor)
    assert function is ours.rebuild_npu_tensor and len(values) == 15
    assert values[:6] == (torch.Tensor, (3, 6), (6, 1), 6, torch.storage.TypedStorage, torch.float32)
    assert (values[DEVICE], values[BYTES], values[9], values[10]) == (0, 24 * 4, 0, False)
    assert isinstance(values[HANDLE], bytes)
    again = function(*values)  # in the owner it is the owner's own
    assert again.untyped_storage()._cdata == tensor.untyped_storage()._cdata and torch.equal(again, tensor)


def test_only_the_arguments_travel(peer: Peer) -> None:
    """As inference engines do it: the receiver knows the function by name, and says its own number of the device."""
    tensor = base().to("npu:1")
    _, values = reductions.reduce_tensor(tensor)
    assert values[DEVICE] == 1
    found = peer.echo(There(theirs.describe_values, pickle.dumps([*values[:DEVICE], 1, *values[DEVICE + 1 :]])))
    assert found == programs.describe(tensor)


def test_another_device_reads_and_writes_the_memory(peer: Peer) -> None:
    tensor = base()
    _, values = reductions.reduce_tensor(tensor)
    device, total = peer.echo(There(theirs.add, pickle.dumps([*values[:DEVICE], 1, *values[DEVICE + 1 :]]), 2.0))
    assert device == "npu:1" and total == tensor.sum().item() == 276.0 + 48.0


def test_a_device_that_is_not_there_is_refused(peer: Peer) -> None:
    _, values = reductions.reduce_tensor(base())
    values = [*values[:DEVICE], 99, *values[DEVICE + 1 :]]
    with pytest.raises(RuntimeError, match="asked for on npu:99, but this process sees"):
        peer.echo(There(theirs.describe_values, pickle.dumps(values)))
    with pytest.raises(ValueError, match="asked for on npu:1 in the process that has it on npu:0"):
        ours.rebuild_npu_tensor(*values[:DEVICE], 1, *values[DEVICE + 1 :])
    for other, handle in (("npu:0", values[HANDLE]), (torch.device("npu", 0), values[HANDLE]), (None, b"")):
        with pytest.raises(TypeError, match=r"\(values\[6\] of reduce_tensor\) is a number, such as 1 for npu:1, not"):
            ours.rebuild_npu_tensor(*values[:DEVICE], other, handle, *values[HANDLE + 1 :])
    ours.rebuild_npu_tensor(*values[:DEVICE], 0, *values[DEVICE + 1 :])  # or its memory would be kept for a receiver


def test_a_handle_keeps_its_memory_until_it_was_received(peer: Peer) -> None:
    before = torch.npu.memory_allocated()
    message = plain(torch.full((1 << 16,), 3.0, device="npu"))
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before + (1 << 18)
    peer.echo(There(theirs.keep, "t", message))
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before + (1 << 18) and peer.values_of("t")[:2] == [3.0, 3.0]
    peer.echo(There(theirs.forget, "t"))
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before


def test_a_pickler_between_processes_may_be_told_to_use_it(peer: Peer) -> None:
    """Programs put a function of their own in its place and call init_reductions, which registers what is there."""
    table = dict(ForkingPickler._extra_reducers)
    tensor, original = base(), reductions.reduce_tensor
    calls = []

    def watched(value: torch.Tensor) -> tuple:
        calls.append(value)
        return original(value)

    try:
        reductions.reduce_tensor = watched
        reductions.init_reductions()
        peer.keep("t", tensor)
        peer.echo(There(theirs.write_kept, "t", 5.0))
        event = torch.npu.Event(interprocess=True)
        event.record()
        assert peer.wait_then_read(event, tensor)[0][0] == 5.0
    finally:
        reductions.reduce_tensor = original
        ForkingPickler._extra_reducers.clear()
        ForkingPickler._extra_reducers.update(table)
    assert len(calls) == 2 and tensor.unique().tolist() == [5.0]
    peer.forget("t")


def test_a_function_in_the_place_of_the_rebuilding_one_is_found_by_its_name(peer: Peer) -> None:
    """As servers do that know their device by another number than the trainer's."""
    tensor = base()
    peer.echo(There(theirs.patch, 1))
    try:
        assert peer.echo(There(theirs.describe_handle, plain(tensor)))["device"] == "npu:1"
    finally:
        peer.echo(There(theirs.patch, None))
    assert peer.echo(There(theirs.describe_handle, plain(tensor)))["device"] == "npu:0"


def test_what_is_not_of_an_npu_goes_pytorchs_way() -> None:
    function, values = reductions.reduce_tensor(torch.arange(3.0))
    assert function is reductions.rebuild_tensor and function(*values).tolist() == [0.0, 1.0, 2.0]
    sparse = torch.eye(2, device="npu").to_sparse()
    function, values = reductions.reduce_tensor(sparse)
    assert function is reductions.rebuild_sparse_coo_tensor
    assert function(*values).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(RuntimeError, match="requires_grad"):
        reductions.reduce_tensor(base().requires_grad_() * 2)
    with pytest.raises(RuntimeError, match="_share_npu_ is for storages on an npu, and this one is on cpu"):
        torch.ones(1).untyped_storage()._share_npu_()


def test_a_storage_has_a_handle_of_its_own(peer: Peer) -> None:
    tensor = base()
    parts = tensor.untyped_storage()._share_npu_()
    assert len(parts) == 8 and (parts[0], parts[2], parts[3]) == (0, 96, 0)
    peer.echo(There(theirs.fill_storage, pickle.dumps(parts), 9.0))
    assert tensor.unique().tolist() == [9.0]
    empty = torch.empty(0, device="npu").untyped_storage()._share_npu_()
    assert torch.UntypedStorage._new_shared_npu(*empty).nbytes() == 0
