"""What another process gets of npu tensors and storages."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing as mp

from tests.older import OLDER
from tests.sharing import programs
from tests.sharing.peer import SPAWN, Peer

DEV = "npu"


def base() -> torch.Tensor:
    return torch.arange(24.0, device=DEV).reshape(4, 6)


VIEWS = {
    "whole": base,
    "row": lambda: base()[2],
    "column": lambda: base()[:, 3],
    "transposed": lambda: base().t(),
    "steps": lambda: base()[::2, 1::3],
    "expanded": lambda: base()[0].expand(3, 6),
    "scalar": lambda: base()[1, 1],
    "half": lambda: base().half(),
    "bool": lambda: base() > 5,
    "int64": lambda: base().long(),
    "complex": lambda: torch.complex(base(), base() + 1),
    "conj": lambda: torch.complex(base(), base() + 1).conj(),
    "neg": lambda: torch.complex(base(), base() + 1).conj().imag,
    "empty": lambda: torch.empty(0, 3, device=DEV),
    "no elements of a storage": lambda: base()[2:2],
    "leaf": lambda: base().requires_grad_(True),
    "parameter": lambda: torch.nn.Parameter(base()),
    "int parameter": lambda: torch.nn.Parameter(base().int(), requires_grad=False),
    "large": lambda: torch.arange(3_000_000, device=DEV).float()[::300_000],
    "other device": lambda: base().to("npu:1"),
}


def test_every_kind_of_view_arrives_as_it_is(peer: Peer) -> None:
    sent = {name: make() for name, make in VIEWS.items()}
    for name, got in zip(sent, peer.describe_all(list(sent.values())), strict=True):
        assert got == programs.describe(sent[name]), name


def test_memory_is_shared_not_copied(peer: Peer) -> None:
    tensor = base()
    before = peer.memory()
    peer.keep("t", tensor)
    assert peer.memory() == before, "the other process allocated"
    peer.write(tensor[1], 7.0)
    assert tensor[1].tolist() == [7.0] * 6 and tensor[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    tensor[0, 0] = -1
    torch.npu.synchronize()
    assert peer.values_of("t")[0][0] == -1.0
    peer.forget("t")


def test_views_of_one_storage_stay_views_of_one(peer: Peer) -> None:
    tensor = base()
    assert peer.storages([tensor, tensor[1], tensor.t(), tensor.reshape(-1)[5:]]) == 1
    peer.keep("t", tensor)
    assert peer.is_kept("t", tensor[2:]) and not peer.is_kept("t", base())
    peer.forget("t")


def test_a_tensor_comes_back_as_itself(peer: Peer) -> None:
    tensor = base()
    back = peer.echo(tensor.t())
    assert back.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    assert back.stride() == (1, 6) and back.data_ptr() == tensor.data_ptr()
    peer.keep("t", tensor)
    pointer = tensor.data_ptr()
    del tensor, back
    peer.send("values_of", "t")
    assert peer.answer()[3][5] == 23.0
    back = peer.given_back("t")
    assert back.data_ptr() == pointer and back[3].tolist() == [18.0, 19.0, 20.0, 21.0, 22.0, 23.0]
    peer.forget("t")


def test_a_tensor_of_the_other_process(peer: Peer) -> None:
    got = peer.give(5, 2.5)
    assert got.device.type == DEV and got.tolist() == [2.5] * 5
    got += 1
    torch.npu.synchronize()
    assert peer.values_of("given") == [3.5] * 5
    assert (got @ torch.ones(5, device=DEV)).item() == 17.5
    other = peer.give(3, 1.0, "npu:1")
    assert str(other.device) == "npu:1" and other.tolist() == [1.0] * 3
    peer.forget("given")
    assert got.tolist() == [3.5] * 5, "it is kept for who has it"


# PyTorch says so once in a process, to whichever test comes first.
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_are_sent(peer: Peer) -> None:
    tensor = base()
    untyped = peer.echo(tensor.untyped_storage())
    assert type(untyped) is torch.UntypedStorage and untyped.data_ptr() == tensor.data_ptr()
    typed = peer.echo(tensor.storage())
    assert typed.dtype == torch.float32 and typed.tolist()[:3] == [0.0, 1.0, 2.0]
    assert peer.echo(torch.UntypedStorage(0, device=DEV)).nbytes() == 0


def test_a_received_storage_does_not_grow(peer: Peer) -> None:
    got = peer.give(4, 1.0)
    with pytest.raises(RuntimeError, match="not resizable"):
        got.resize_(100)
    peer.forget("given")


def test_a_tensor_with_a_history_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        ForkingPickler.dumps(base().requires_grad_(True) * 2)


def test_share_memory_keeps_npu_tensors_where_they_are(peer: Peer) -> None:
    tensor = base()
    assert tensor.share_memory_() is tensor and (OLDER or tensor.is_shared())  # of CUDA alone in 2.10
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).npu()
    assert model.share_memory() is model
    before = model[0].weight.detach().cpu()
    peer.step(model, 0.0)
    torch.testing.assert_close(model[0].weight.detach().cpu(), before, rtol=0, atol=0)
    with torch.no_grad():
        model[1].weight.fill_(3.0)
        torch.npu.synchronize()
    state = peer.echo(model.state_dict())
    assert state["1.weight"].tolist() == [3.0, 3.0] and state["1.weight"].data_ptr() == model[1].weight.data_ptr()
    assert model[1].num_batches_tracked.item() == 1, "the other process's forward pass counted in the shared buffer"


def relay(rank: int, incoming, outgoing, simple, done, argument: torch.Tensor) -> None:
    argument += 1
    torch.npu.synchronize()
    outgoing.put(argument)  # back to its owner
    simple.put([incoming.get() for _ in range(3)])
    done.get()


def test_queues_arguments_and_a_receiver_that_passes_on(peer: Peer) -> None:
    incoming, outgoing, simple, done = SPAWN.Queue(), SPAWN.Queue(), SPAWN.SimpleQueue(), SPAWN.Queue()
    argument = torch.zeros(4, device=DEV)
    child = mp.spawn(relay, (incoming, outgoing, simple, done, argument), nprocs=1, join=False)
    tensors = [torch.full((3,), float(i), device=DEV) for i in range(2)]
    theirs = peer.give(2, 9.0)  # the peer's tensor goes through here to a third process, and comes back
    for tensor in (*tensors, theirs):
        incoming.put(tensor)
    back = outgoing.get(timeout=120)
    assert argument.tolist() == [1.0] * 4 and back.data_ptr() == argument.data_ptr()
    got = simple.get()
    assert [t.tolist() for t in got] == [[0.0] * 3, [1.0] * 3, [9.0] * 2]
    assert [a.data_ptr() == b.data_ptr() for a, b in zip(got, (*tensors, theirs), strict=True)] == [True] * 3
    got[2].fill_(4.0)
    torch.npu.synchronize()
    assert peer.values_of("given") == [4.0, 4.0]
    assert peer.is_kept("given", got[2]), "the owner gets its own storage back"
    done.put(None)
    child.join()
    peer.forget("given")


def test_other_kinds_go_pytorchs_way(peer: Peer) -> None:
    cpu, meta = torch.arange(3.0), torch.empty(2, 2, device="meta")
    assert peer.echo(cpu).tolist() == [0.0, 1.0, 2.0] and peer.echo(meta).device.type == "meta"
