"""torch_npu/contrib/apex/amp: gradients of earlier passes stay what they are, whatever happens between passes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.contrib.test_apex_amp import as_before, sgd  # noqa: F401
from torch_npu.contrib.apex import amp

KINDS = [{"opt_level": level, "combine_grad": combine} for level in ("O1", "O2") for combine in (None, True)]
each = pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(map(str, options.values())))


def prepared(options, scale: float | str = 128.0):
    """Two layers whose gradients are whole numbers, so that half precision is exact."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).npu()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    return amp.initialize(model, sgd(model.parameters()), loss_scale=scale, verbosity=0, **options)


def backward(model, optimizer, factor: float = 1.0, **options) -> None:
    loss = model(torch.ones(1, 4, device="npu")).float().sum() * factor
    with amp.scale_loss(loss, optimizer, **options) as scaled:
        scaled.backward()


def gradients(optimizer) -> list[float]:
    """One a parameter, all of whose elements have the same."""
    found = []
    for parameter in amp.master_params(optimizer):
        values = set(parameter.grad.flatten().tolist())
        assert len(values) == 1
        found.append(values.pop())
    return found


ONE = [2.0, 2.0, 5.0, 1.0]  # of one pass, by parameter


@each
def test_gradients_replaced_between_passes_are_added_to_as_they_are(options):
    model, optimizer = prepared(options)
    backward(model, optimizer)
    for parameter in amp.master_params(optimizer):
        parameter.grad = parameter.grad * 0.5
    backward(model, optimizer)
    assert gradients(optimizer) == [1.5 * value for value in ONE]
    backward(model, optimizer)
    assert gradients(optimizer) == [2.5 * value for value in ONE]


@pytest.mark.parametrize("combine", [None, True])
def test_a_gradient_that_was_there_stays_where_the_pass_reaches_its_parameter_not(combine):
    model, optimizer = prepared({"opt_level": "O1", "combine_grad": combine})
    model(torch.ones(1, 4, device="npu")).sum().backward()
    with amp.scale_loss(model[1](torch.ones(1, 3, device="npu")).sum(), optimizer) as scaled:
        scaled.backward()
    assert gradients(optimizer) == [2.0, 2.0, 6.0, 2.0]
    backward(model, optimizer)
    assert gradients(optimizer) == [4.0, 4.0, 11.0, 3.0]


@each
@pytest.mark.parametrize("when", ["before backward", "after backward"])
def test_a_block_that_raises_leaves_the_gradients_that_were_there(options, when):
    model, optimizer = prepared(options)
    for earlier in range(3):
        with pytest.raises(MemoryError):
            with amp.scale_loss(model(torch.ones(1, 4, device="npu")).float().sum(), optimizer) as scaled:
                if when == "after backward":
                    scaled.backward()
                raise MemoryError
        if earlier:
            assert gradients(optimizer) == [earlier * value for value in ONE]
        else:
            assert all(p.grad is None for p in amp.master_params(optimizer))
        backward(model, optimizer)
        assert gradients(optimizer) == [(earlier + 1) * value for value in ONE]


@each
@pytest.mark.parametrize("when", ["before backward", "after backward"])
def test_a_delayed_block_that_raises_leaves_no_gradient_of_the_wrong_scale(options, when):
    model, optimizer = prepared(options)
    with pytest.raises(MemoryError):
        with amp.scale_loss(
            model(torch.ones(1, 4, device="npu")).float().sum(), optimizer, delay_unscale=True
        ) as scaled:
            if when == "after backward":
                scaled.backward()
            raise MemoryError
    backward(model, optimizer)
    assert gradients(optimizer) == [(2 if when == "after backward" else 1) * value for value in ONE]


@each
def test_passes_that_replace_gradients_of_combined_ones_are_added(options):
    model, optimizer = prepared(options)
    for number in (1, 2, 3):
        with amp.scale_loss(model(torch.ones(1, 4, device="npu")).float().sum(), optimizer) as scaled:
            scaled.backward(create_graph=number == 2)
        if number == 2:
            for parameter in model.parameters():
                parameter.grad.detach_()
        assert gradients(optimizer) == [number * value for value in ONE]


@pytest.mark.parametrize("combine", [None, True])
def test_what_a_dropped_gradient_held_is_no_overflow_of_later_steps(combine):
    model, optimizer = prepared({"opt_level": "O1", "combine_grad": combine}, "dynamic")
    backward(model, optimizer, float("inf"))
    optimizer.step()
    scale = amp.state_dict()["loss_scaler0"]["loss_scale"]
    for parameter in model[0].parameters():
        parameter.grad = None
    optimizer.zero_grad()
    with amp.scale_loss(model[1](torch.ones(1, 3, device="npu")).sum(), optimizer) as scaled:
        scaled.backward()
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": scale, "unskipped": 1}


def test_a_block_within_a_block_of_the_same_optimizer_is_refused():
    model, optimizer = prepared({"opt_level": "O1"})
    backward(model, optimizer)
    loss = model(torch.ones(1, 4, device="npu")).float().sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        with pytest.raises(RuntimeError, match="amp.scale_loss within another one of the same optimizer"):
            with amp.scale_loss(loss, optimizer):
                pass
        scaled.backward()
    assert gradients(optimizer) == [2 * value for value in ONE]
