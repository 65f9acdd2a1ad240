"""torch_npu/contrib/apex/amp: O2's master copies and gradients, where a script does more than the usual loop."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.contrib.test_apex_amp import as_before, batches, network, sgd  # noqa: F401
from torch_npu.contrib.apex import amp

HALF = {"opt_level": "O2", "loss_scale": 128.0, "verbosity": 0}


def prepared(seed: int = 2) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = network().npu()
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return amp.initialize(model, sgd(model.parameters()), **HALF)


def steps(model, optimizer, data, cleared=None) -> list[float]:
    losses = []
    for inputs, labels in data:
        (cleared or optimizer.zero_grad)()
        loss = F.cross_entropy(model(inputs.npu()), labels.npu())
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_gradients_may_be_cleared_by_the_model():
    data = batches(5)
    first, second, third = prepared(), prepared(), prepared()

    def by_hand() -> None:
        for parameter in third[0].parameters():
            parameter.grad = None

    wanted = steps(*first, data)
    assert steps(*second, data, second[0].zero_grad) == wanted
    assert steps(*third, data, by_hand) == wanted


def test_a_checkpoint_loaded_behind_initialize_is_what_training_goes_on_from():
    data = batches(6)
    model, optimizer = prepared()
    steps(model, optimizer, data[:3])
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), amp.state_dict()))
    wanted = steps(model, optimizer, data[3:])
    for before in (0, 2):  # steps of other weights that come first
        model, optimizer = prepared(seed=77)
        steps(model, optimizer, data[:before])
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(copy.deepcopy(saved[1]))
        amp.load_state_dict(saved[2])
        # The masters' last bits are not in a checkpoint, as in Apex.
        assert steps(model, optimizer, data[3:]) == pytest.approx(wanted, abs=2e-3)


def test_weights_of_another_rank_written_by_data_are_taken():
    (model, optimizer), (other, _) = prepared(), prepared(seed=77)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    optimizer.step()  # nothing has a gradient
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_masters_keep_their_bits_where_nothing_was_written():
    model, optimizer = prepared()
    steps(model, optimizer, batches(2))
    masters = [p.detach().clone() for p in amp.master_params(optimizer)]
    with torch.no_grad():
        model[6].bias[1] = 3.0
    model.load_state_dict(model.state_dict())
    optimizer.zero_grad()
    optimizer.step()
    masters[-1][1] = 3.0
    assert all(torch.equal(a, b) for a, b in zip(amp.master_params(optimizer), masters, strict=True))


def test_a_loss_that_reaches_nothing_of_an_optimizer_leaves_its_gradients():
    for level in ("O0", "O1", "O2", "O3"):
        models = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).npu(), nn.Linear(4, 1).npu()]
        models, optimizers = amp.initialize(
            models, [sgd(m.parameters()) for m in models], opt_level=level, num_losses=2, verbosity=0
        )
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).npu()
        with amp.scale_loss(models[0](x).square().mean(), optimizers, loss_id=0) as scaled:
            scaled.backward()
        wanted = [p.grad.clone() for p in amp.master_params(optimizers[0])]
        with amp.scale_loss(models[1](x).mean(), optimizers, loss_id=1) as scaled:
            scaled.backward()
        got = [p.grad for p in amp.master_params(optimizers[0])]
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True)), level


def test_parameters_added_later_have_masters_too():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).npu()
    model, optimizer = amp.initialize(model, sgd(model[0].parameters()), **HALF)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [model[0].weight]})
    optimizer.add_param_group({"params": list(model[1].parameters()), "lr": 0.5})
    assert [p.dtype for p in amp.master_params(optimizer)] == [torch.float32] * 4
    before = model[1].weight.detach().clone()
    with amp.scale_loss(model(torch.ones(2, 4, device="npu")).mean(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert model[1].weight.dtype == torch.float16 and not torch.equal(model[1].weight, before)


def test_a_copy_of_a_model_and_a_saved_one_run_their_own_weights():
    model, _ = prepared()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    inputs = batches(1)[0][0].npu()
    wanted = model(inputs)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert torch.equal(other(inputs), wanted) and other(inputs).dtype == torch.float32
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        assert not other(inputs).any() and torch.equal(model(inputs), wanted)


def test_another_initialize_ends_what_o1_set():
    for options in ({"opt_level": "O0"}, {"enabled": False}):
        for level in ("O1", options.get("opt_level")):
            model = nn.Linear(2, 2).npu()
            amp.initialize(model, sgd(model.parameters()), verbosity=0, **({"opt_level": level} if level else options))
            dtype = (torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")).dtype
            assert dtype == (torch.float16 if level == "O1" else torch.float32)
        assert torch.is_autocast_cache_enabled()
    assert amp.state_dict() == {}
    assert torch.get_autocast_dtype("npu") == torch.float16  # the npu's own


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_scale": 0}, "a number above 0"),
        ({"loss_scale": float("nan")}, "a number above 0"),
        ({"loss_scale": "inf"}, "a number above 0"),
        ({"loss_scale": "high"}, "or \"dynamic\", not 'high'"),
        ({"num_losses": 0}, "1 or more, not 0"),
        ({"min_loss_scale": 2.0**30}, "not below min_loss_scale"),
        ({"scale_backoff_factor": 2.0}, "between 0 and 1"),
        ({"scale_window": 0}, r"scale_window \(0\)"),
        ({"scale_window": 2.5}, r"scale_window \(2.5\) a whole number"),
        ({"scale_window": True}, "scale_window is a number, not True"),
        ({"scale_window": "3"}, "scale_window is a number, not '3'"),
        ({"dynamic_init_scale": "abc"}, "dynamic_init_scale is a number, not 'abc'"),
        ({"scale_growth_factor": None}, "scale_growth_factor is a number, not None"),
        ({"scale_backoff_factor": "0.5"}, "scale_backoff_factor is a number, not '0.5'"),
        ({"min_loss_scale": False}, "min_loss_scale is a number, not False"),
        ({"max_loss_scale": "1"}, "max_loss_scale is a number, not '1'"),
        ({"verbosity": "x"}, "verbosity is a whole number, not 'x'"),
        ({"ddp_replica_count": "x"}, "ddp_replica_count is a whole number, 1 or more, not 'x'"),
        ({"ddp_replica_count": -2}, "ddp_replica_count is a whole number, 1 or more, not -2"),
        ({"opt_level": "O2", "cast_model_type": "float16"}, "one of torch.float16, .*, not 'float16'"),
        ({"opt_level": "O2", "cast_model_type": torch.int32}, "cast_model_type is one of .*, not torch.int32"),
        ({"opt_level": "O2", "cast_model_type": torch.float64}, "cast_model_type is one of .*, not torch.float64"),
        ({"cast_model_outputs": torch.float8_e5m2}, "cast_model_outputs is one of .*, not torch.float8_e5m2"),
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused_before_anything_is_changed(options, message):
    model = nn.Linear(2, 2).npu()
    with pytest.raises(ValueError, match=message):
        amp.initialize(model, sgd(model.parameters()), **({"verbosity": 0} | options))
    assert model.weight.dtype == torch.float32 and amp._amp_state.opt_properties is None


def test_a_loss_that_was_not_announced_is_refused():
    model, optimizer = prepared()
    for number in (1, -1):
        with pytest.raises(ValueError, match="num_losses=1: they count from 0"):
            with amp.scale_loss(torch.ones((), device="npu"), optimizer, loss_id=number):
                pass


def test_a_model_in_double_precision_is_refused_by_every_level():
    with pytest.raises(RuntimeError, match="torch.float64 on npu:0, expected float32"):
        amp.initialize(nn.Linear(2, 2).double().npu(), opt_level="O0", verbosity=0)


def test_a_scale_grows_where_a_checkpoint_had_a_longer_window():
    model = nn.Linear(4, 2).npu()
    model, optimizer = amp.initialize(model, sgd(model.parameters()), opt_level="O1", scale_window=3, verbosity=0)
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 8.0, "unskipped": 1500}})
    with amp.scale_loss(model(torch.ones(1, 4, device="npu")).float().sum(), optimizer) as scaled:
        scaled.backward()
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 16.0, "unskipped": 0}}
