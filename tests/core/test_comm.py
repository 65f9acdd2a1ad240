"""torch_npu/npu/comm.py and _spread.py: tensors of one process over several devices, and torch.nn.DataParallel on them.
torch.cuda is not touched: nothing here needs transfer_to_npu."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from tests import forked
from tests.older import OLDER
from torch_npu.npu import _spread

D0, D1 = torch.device("npu", 0), torch.device("npu", 1)


@pytest.fixture(autouse=True)
def two_devices():
    if torch.npu.device_count() < 2:
        pytest.skip("there is one npu")


def test_broadcast() -> None:
    t = torch.arange(6.0).reshape(2, 3).to(D0)
    here, there = torch.npu.comm.broadcast(t, [0, 1])
    assert here.device == D0 and there.device == D1 and torch.equal(there.cpu(), t.cpu())
    out = [torch.zeros(2, 3, device=D1), torch.zeros(2, 3, device=D0)]
    torch.npu.comm.broadcast(t, out=out)
    assert all(torch.equal(o.cpu(), t.cpu()) for o in out)
    with pytest.raises(RuntimeError, match="same shape"):
        torch.npu.comm.broadcast(t, out=[torch.zeros(3, device=D1)])


def test_broadcast_coalesced() -> None:
    tensors = [torch.full((n,), float(n)).to(D0) for n in (1, 5, 1000)] + [torch.arange(3).to(D0)]
    copies = torch.npu.comm.broadcast_coalesced(tensors, [0, 1], buffer_size=100)
    assert [t.device for t in copies[1]] == [D1] * 4
    assert all(torch.equal(a.cpu(), b.cpu()) and a.dtype == b.dtype for a, b in zip(tensors, copies[1], strict=True))


@pytest.mark.parametrize("source", ["cpu", "npu:0", "npu:1"])
def test_scatter_and_gather(source: str) -> None:
    t = torch.arange(14.0).reshape(7, 2).to(source)
    parts = torch.npu.comm.scatter(t, [0, 1])
    assert [p.shape[0] for p in parts] == [4, 3] and [p.device for p in parts] == [D0, D1]
    assert torch.equal(torch.npu.comm.gather(parts, destination=1).cpu(), t.cpu())
    parts = torch.npu.comm.scatter(t, [1, 0], chunk_sizes=[2, 5])
    assert [p.shape[0] for p in parts] == [2, 5]
    assert torch.npu.comm.gather(parts, destination="cpu").device.type == "cpu"
    out = [torch.zeros(3, 2, device=D0), torch.zeros(4, 2, device=D1)]
    torch.npu.comm.scatter(t, out=out)
    assert torch.equal(torch.cat([o.cpu() for o in out]), t.cpu())
    whole = torch.zeros(7, 2, device=D1)
    torch.npu.comm.gather(out, out=whole)
    assert torch.equal(whole.cpu(), t.cpu())
    with pytest.raises(RuntimeError, match="same length"):
        torch.npu.comm.scatter(t, [0, 1], chunk_sizes=[7])
    with pytest.raises(RuntimeError, match="Total size"):
        torch.npu.comm.scatter(t, out=[torch.zeros(3, 2, device=D0)])


def test_reduce_add() -> None:
    inputs = [torch.full((2, 3), 1.0, device=D0), torch.full((2, 3), 2.0, device=D1)]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", "PyTorch is not compiled with NCCL support")
        total = torch.npu.comm.reduce_add(inputs, destination=1)
    assert total.device == D1 and torch.equal(total.cpu(), torch.full((2, 3), 3.0))
    lists = [[torch.full((4,), float(i), device=d), torch.full((2, 2), 10.0, device=d)] for i, d in enumerate((D0, D1))]
    first, second = torch.npu.comm.reduce_add_coalesced(lists, destination=0)
    assert torch.equal(first.cpu(), torch.full((4,), 1.0)) and torch.equal(second.cpu(), torch.full((2, 2), 20.0))


def test_only_the_question_of_torch_nn_parallel_is_not_warned_of() -> None:
    script = (
        "import torch, warnings\nfrom torch.nn.parallel import comm\nfrom torch.cuda import nccl\n"
        "both = [torch.ones(2, device='npu:0'), torch.ones(2, device='npu:1')]\n"
        "for ask in (lambda: comm.reduce_add(both, 0), lambda: nccl.is_available(both)):\n"
        "    with warnings.catch_warnings(record=True) as caught:\n"
        "        ask()\n"
        "    print(len(caught))\n"
    )
    done = forked.run(["-c", script])
    asks = "0" if hasattr(torch._C, "_nccl_all_reduce") else "1"  # built with NCCL, it has nothing to warn of
    assert done.stdout.split() == ["0", asks] and done.returncode == 0, done.stderr


@pytest.mark.parametrize("cuda_devices", [0, 2])
def test_beside_cudas_functions_the_npus_tensors_are_ours(monkeypatch: pytest.MonkeyPatch, cuda_devices: int) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda_devices)
    monkeypatch.setattr(torch._C, "_broadcast_coalesced", None, raising=False)
    for function in _spread.FUNCTIONS:
        cudas = lambda *args, name=function.__name__, **kwargs: (name, args, kwargs)  # noqa: E731
        monkeypatch.setattr(torch._C, function.__name__, cudas)
    _spread.supply()
    here, there = torch.npu.comm.broadcast(torch.arange(3.0, device=D0), [0, 1])
    assert (here.device, there.device, there.tolist()) == (D0, D1, [0, 1, 2])
    parts = torch.npu.comm.scatter(torch.arange(4.0, device=D1), [0, 1])
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]
    assert torch.npu.comm.gather(parts, destination=1).tolist() == [0, 1, 2, 3]
    out = [torch.zeros(2, device=D0), torch.zeros(2, device=D1)]
    torch.npu.comm.scatter(torch.arange(4.0), out=out)  # the CPU's, but for the npu
    assert [part.tolist() for part in out] == [[0, 1], [2, 3]]
    x = torch.arange(4.0)
    if cuda_devices:
        assert torch._C._scatter(x, [0, 1], None, dim=0) == ("_scatter", (x, [0, 1], None), {"dim": 0})
    else:
        assert [part.device for part in torch.npu.comm.scatter(x, [0, 1])] == [D0, D1]


def model() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


@pytest.mark.parametrize("rows", [8, 5, 1])
def test_data_parallel_trains_as_the_cpu(rows: int) -> None:
    cpu = model()
    npu = nn.DataParallel(copy.deepcopy(cpu).to(D0), device_ids=[0, 1])
    losses = []
    for net, place in ((cpu, "cpu"), (npu, "npu:0")):
        generator = torch.Generator().manual_seed(9)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses.append([])
        for _ in range(6):
            x, y = torch.randn(rows, 6, generator=generator), torch.randint(0, 3, (rows,), generator=generator)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)
    assert losses[0][0] != losses[0][-1]


def test_data_parallel_of_complex_and_buffers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight = torch.complex(torch.arange(3.0), torch.ones(3))
            self.weight = nn.Parameter(weight.real if OLDER else weight)  # 2.10 gives replicas pairs of numbers
            self.register_buffer("shift", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            product = self.weight * x
            return (torch.view_as_real(product).sum(-1) if product.is_complex() else product) + self.shift

    x = torch.randn(4, 3)
    cpu = Net()
    cpu(x).sum().backward()
    npu = nn.DataParallel(copy.deepcopy(cpu).to(D0), device_ids=[0, 1])
    npu.zero_grad()
    out = npu(x.to(D0))
    out.sum().backward()
    torch.testing.assert_close(out.cpu(), cpu(x))
    torch.testing.assert_close(npu.module.weight.grad.cpu(), cpu.weight.grad)


def test_data_parallel_output_on_another_device_and_a_failing_replica() -> None:
    net = nn.DataParallel(model().to(D0), device_ids=[0, 1], output_device=1)
    assert net(torch.ones(4, 6, device=D0)).device == D1
    with pytest.raises(RuntimeError, match="replica"):
        net(torch.ones(4, 5, device=D0))
