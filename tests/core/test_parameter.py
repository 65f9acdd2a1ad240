"""A parameter stays the same object when its module moves, so an optimizer made before still trains it, as on CUDA."""

from __future__ import annotations

import copy

import pytest
import torch

MOVES = {
    "module.npu()": lambda module: module.npu(),
    "module.to('npu')": lambda module: module.to("npu"),
    "module.to(device, dtype)": lambda module: module.to(torch.device("npu"), torch.float32),
    "module.cpu().npu()": lambda module: module.npu().cpu().npu(),
}
OPTIMIZERS = {
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def train(module: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    data = torch.linspace(-1, 1, 24).reshape(6, 4).to(next(module.parameters()).device)
    for _ in range(steps):
        optimizer.zero_grad()
        module(data).square().mean().backward()
        optimizer.step()


def close(left: torch.nn.Module, right: torch.nn.Module) -> bool:
    pairs = zip(left.parameters(), right.parameters(), strict=True)
    return all(torch.allclose(a.detach().cpu(), b.detach().cpu(), atol=1e-6) for a, b in pairs)


@pytest.mark.parametrize("move", MOVES)
def test_parameters_keep_their_identity(move):
    module = model()
    before = list(module.parameters())
    moved = MOVES[move](module)
    assert moved is module
    assert [id(p) for p in module.parameters()] == [id(p) for p in before]
    assert all(p.device == torch.device("npu:0") and p.is_leaf and p.requires_grad for p in before)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("move", MOVES)
def test_an_optimizer_made_before_trains_the_moved_model(move, optimizer):
    ours, reference = model(), model()
    mine, theirs = (OPTIMIZERS[optimizer](m.parameters()) for m in (ours, reference))
    MOVES[move](ours)
    train(ours, mine)
    train(reference, theirs)
    assert close(ours, reference)
    assert not close(ours, model())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_model_trained_on_the_npu_goes_on_on_the_cpu(optimizer):
    ours, reference = model().npu(), model()
    mine, theirs = (OPTIMIZERS[optimizer](m.parameters()) for m in (ours, reference))
    train(ours, mine)
    train(reference, theirs)
    ours.cpu()
    assert all(p.device.type == "cpu" for p in ours.parameters())
    mine.load_state_dict(copy.deepcopy(mine.state_dict()))  # moves the state to where the parameters are
    train(ours, mine)
    train(reference, theirs)
    assert close(ours, reference)


def test_an_optimizer_with_state_goes_to_the_npu():
    ours, reference = model(), model()
    mine, theirs = (OPTIMIZERS["Adam"](m.parameters()) for m in (ours, reference))
    train(ours, mine)
    train(reference, theirs)
    ours.npu()
    mine.load_state_dict(mine.state_dict())
    assert all(s["exp_avg"].device.type == "npu" for s in mine.state.values())
    train(ours, mine)
    train(reference, theirs)
    assert close(ours, reference)


def test_tied_weights_stay_tied():
    module = torch.nn.Module()
    module.first, module.second = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
    module.second.weight = module.first.weight
    module.npu()
    assert module.first.weight is module.second.weight
    assert module.first.weight.device.type == "npu"
    assert len(list(module.parameters())) == 1


def test_gradients_move_with_their_parameters():
    module = model()
    module(torch.ones(1, 4)).sum().backward()
    values = [p.grad.clone() for p in module.parameters()]
    grads = [id(p.grad) for p in module.parameters()]
    module.npu()
    assert [id(p.grad) for p in module.parameters()] == grads
    for parameter, value in zip(module.parameters(), values, strict=True):
        assert parameter.grad.device.type == "npu"
        assert torch.equal(parameter.grad.cpu(), value)


def test_buffers_move_and_names_stay():
    module = torch.nn.BatchNorm1d(3)
    keys = list(module.state_dict())
    module.npu()
    assert list(module.state_dict()) == keys
    assert module.running_mean.device.type == "npu"


def test_data_may_be_set_by_hand():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.data = torch.full((3,), 2.0, device="npu")
    assert parameter.device.type == "npu" and parameter.tolist() == [2, 2, 2]
    parameter.sum().backward()
    assert parameter.grad.device.type == "npu"


def test_a_sparse_tensor_does_not_take_a_dense_ones_place():
    parameter = torch.nn.Parameter(torch.ones(3, 3))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.eye(3).to_sparse()


@pytest.mark.parametrize("name", [name for name in MOVES if "cpu()" not in name])
def test_a_lazy_module_moves_before_its_first_input(name: str) -> None:
    lazy = MOVES[name](torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.LazyBatchNorm1d()))
    assert lazy(torch.ones(2, 4, device="npu")).device.type == "npu"
    assert lazy[0].weight.shape == (8, 4)
    assert {parameter.device.type for parameter in lazy.parameters()} == {"npu"}
