"""torch_npu/contrib/apex/amp: levels O0 to O3, scales, overflows, accumulation, combined gradients, refusals."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_npu.contrib.apex import amp, optimizers


@pytest.fixture(autouse=True)
def as_before():
    """amp.initialize's effects on the process end with the test."""
    cache = torch.is_autocast_cache_enabled()
    yield
    torch.set_autocast_enabled("npu", False)
    torch.set_autocast_cache_enabled(cache)
    amp._amp_state.__init__()


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.Tanh(),
        nn.Linear(8, 3),
    )  # fmt: skip


def batches(number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    return [
        (torch.randn(6, 2, 4, 4, generator=generator), torch.randint(3, (6,), generator=generator))
        for _ in range(number)
    ]


def plain(make, number: int, accumulate: int = 1) -> tuple[list[float], nn.Module]:
    """The same training in float32 on the CPU."""
    model = network()
    optimizer, losses = make(model.parameters()), []
    for index, (inputs, labels) in enumerate(batches(number)):
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        losses.append(loss.item())
        if (index + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses, model


def train(make, number: int, accumulate: int = 1, delay: bool = False, **options):
    """The same training by amp: losses, model, optimizer."""
    model = network().npu()
    model, optimizer = amp.initialize(model, make(model.parameters()), verbosity=0, **options)
    losses = []
    for index, (inputs, labels) in enumerate(batches(number)):
        loss = F.cross_entropy(model(inputs.npu()), labels.npu())
        last = (index + 1) % accumulate == 0
        with amp.scale_loss(loss, optimizer, delay_unscale=delay and not last) as scaled:
            scaled.backward()
        losses.append(loss.item())
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return losses, model, optimizer


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


def fused(params):
    return optimizers.NpuFusedSGD(params, lr=0.1, momentum=0.9)


LEVELS = [
    {"opt_level": "O0"},
    {"opt_level": "O1"},
    {"opt_level": "O1", "loss_scale": 128.0, "combine_grad": True},
    {"opt_level": "O2"},
    {"opt_level": "O2", "loss_scale": "128.0", "combine_grad": True},
    {"opt_level": "O2", "keep_batchnorm_fp32": "False", "check_combined_tensors": False, "combine_grad": True},
    {"opt_level": "O2", "cast_model_type": torch.bfloat16},
    {"opt_level": "O3", "keep_batchnorm_fp32": True},
]


@pytest.mark.parametrize("options", LEVELS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("make", [sgd, fused])
@pytest.mark.parametrize(("accumulate", "delay"), [(1, False), (2, False), (2, True)])
def test_losses_follow_float32(options, make, accumulate, delay):
    wanted, _ = plain(sgd, 8, accumulate)
    losses, _, _ = train(make, 8, accumulate, delay, **options)
    exact = options["opt_level"] == "O0"
    half = 0.06 if torch.bfloat16 in options.values() else 0.01
    assert losses == pytest.approx(wanted, abs=1e-5 if exact else half)


def test_o2_has_half_weights_float_batch_norms_and_masters():
    _, model, optimizer = train(sgd, 3, opt_level="O2")
    assert model[0].weight.dtype == model[4].weight.dtype == torch.float16
    assert model[1].weight.dtype == model[1].running_mean.dtype == torch.float32
    masters = list(amp.master_params(optimizer))
    assert {p.dtype for p in masters} == {torch.float32}
    assert torch.equal(masters[0].half(), model[0].weight) and not torch.equal(masters[0], model[0].weight.float())
    assert masters[2] is model[1].weight
    assert {v.dtype for v in model.state_dict().values() if v.is_floating_point()} == {torch.float32}
    assert model(torch.ones(6, 2, 4, 4, device="npu")).dtype == torch.float32
    buffers = {state["momentum_buffer"].dtype for state in optimizer.state.values()}
    assert buffers == {torch.float32}


def test_o1_casts_functions_and_keeps_weights():
    model = network().npu()
    model, optimizer = amp.initialize(model, sgd(model.parameters()), opt_level="O1", verbosity=0)
    outputs = model(torch.ones(6, 2, 4, 4, device="npu"))
    assert outputs.dtype == torch.float16 and model[0].weight.dtype == torch.float32
    assert F.cross_entropy(outputs, torch.zeros(6, dtype=torch.long, device="npu")).dtype == torch.float32
    with amp.disable_casts():
        assert model(torch.ones(6, 2, 4, 4, device="npu")).dtype == torch.float32
    with torch.no_grad():
        model[6].bias.fill_(5.0)  # no copy of a weight outlives its change
    assert (model(torch.ones(6, 2, 4, 4, device="npu")) - outputs).abs().min() > 1


@pytest.mark.parametrize("make", [sgd, fused])
@pytest.mark.parametrize(
    "options", [{"opt_level": "O1"}, {"opt_level": "O2"}, {"opt_level": "O2", "combine_grad": True}]
)
def test_an_overflow_halves_the_scale_and_skips_a_step(make, options, capsys):
    model = nn.Linear(2, 1, bias=False).npu()
    model, optimizer = amp.initialize(model, make(model.parameters()), **options)
    before = next(amp.master_params(optimizer)).detach().clone()
    for factor in (1e6, 1.0):
        output = model(torch.ones(1, 2, device="npu")).float().sum() * factor
        with amp.scale_loss(output, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()
        if factor > 1:
            assert torch.equal(next(amp.master_params(optimizer)), before)
            assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 0}}
    assert torch.allclose(next(amp.master_params(optimizer)), before - 0.1)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 1}}
    assert "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out


def test_dynamic_scales_grow_within_their_bounds():
    make = dict(opt_level="O1", dynamic_init_scale=4.0, scale_window=2, scale_growth_factor=4.0, max_loss_scale=32.0)
    train(sgd, 4, **make)
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 32.0, "unskipped": 0}


OWN = dict(opt_level="O2", dynamic_init_scale=64.0)


def test_several_losses_have_scales_of_their_own():
    model = nn.Linear(2, 1, bias=False).npu()
    model, optimizer = amp.initialize(model, sgd(model.parameters()), num_losses=2, verbosity=0, **OWN)
    outputs = model(torch.ones(1, 2, device="npu")).sum()
    with amp.scale_loss(outputs, optimizer, loss_id=0) as scaled:
        scaled.backward(retain_graph=True)
    with amp.scale_loss(outputs * 2, optimizer, loss_id=1) as scaled:
        scaled.backward()
    assert next(amp.master_params(optimizer)).grad.tolist() == [[3.0, 3.0]]
    saved = amp.state_dict()
    assert sorted(saved) == ["loss_scaler0", "loss_scaler1"]
    saved["loss_scaler1"] = {"loss_scale": 8.0, "unskipped": 7}
    amp.load_state_dict(saved)
    assert amp.state_dict() == saved
    with pytest.warns(UserWarning, match="1 loss scales and num_losses is 2"):
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 2.0, "unskipped": 0}})


def test_a_checkpoint_goes_on_with_the_same_numbers():
    _, model, optimizer = train(fused, 3, opt_level="O2", loss_scale=128.0)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), amp.state_dict()))
    masters = [p.detach().clone() for p in amp.master_params(optimizer)]
    amp._amp_state.__init__()
    again = network().npu()
    again, other = amp.initialize(again, fused(again.parameters()), opt_level="O2", loss_scale=128.0, verbosity=0)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    amp.load_state_dict(saved[2])
    for master, value in zip(amp.master_params(other), masters, strict=True):
        master.data.copy_(value)
    for inputs, labels in batches(2):
        values = []
        for net, opt in ((model, optimizer), (again, other)):
            loss = F.cross_entropy(net(inputs.npu()), labels.npu())
            with amp.scale_loss(loss, opt) as scaled:
                scaled.backward()
            opt.step()
            opt.zero_grad()
            values.append(loss.item())
        assert values[0] == values[1]


def test_a_scheduler_and_clipping_work_as_scripts_use_them():
    model = nn.Linear(2, 1, bias=False).npu()
    model, optimizer = amp.initialize(model, sgd(model.parameters()), verbosity=0, **OWN)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    with amp.scale_loss(model(torch.full((1, 2), 30.0, device="npu")).sum(), optimizer) as scaled:
        scaled.backward()
    before = next(amp.master_params(optimizer)).detach().clone()
    assert nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0).item() == pytest.approx(30 * 2**0.5, rel=1e-3)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
    moved = (before - next(amp.master_params(optimizer))).detach()
    assert torch.allclose(moved, torch.full_like(moved, 0.1 / 2**0.5), rtol=1e-3)
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_functions_of_the_user_choose_their_precision_under_o1():
    def kind(*tensors: torch.Tensor) -> list[torch.dtype]:
        return [t.dtype for t in tensors]

    class Box:
        own = staticmethod(kind)

    amp.register_half_function(Box, "own")
    single, half = torch.ones(2, device="npu"), torch.ones(2, dtype=torch.float16, device="npu")
    assert amp.half_function(kind)(single) == [torch.float32]
    amp.initialize(nn.Linear(2, 2).npu(), opt_level="O1", verbosity=0)
    assert amp.half_function(kind)(single, half) == [torch.float16] * 2 == Box.own(single, half)
    assert amp.float_function(kind)(single, half) == [torch.float32] * 2
    assert amp.promote_function(kind)(single, half) == [torch.float32] * 2
    assert amp.promote_function(kind)(half, half) == [torch.float16] * 2
    with pytest.raises(ValueError, match="No function named missing"):
        amp.register_float_function(Box, "missing")


def test_disabled_amp_changes_nothing():
    model = nn.Linear(2, 2).npu()
    optimizer = sgd(model.parameters())
    assert amp.initialize(model, optimizer, enabled=False) == (model, optimizer)
    loss = model(torch.ones(1, 2, device="npu")).sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss


def test_flags_may_be_strings_as_command_lines_give_them():
    def product(**options) -> torch.dtype:
        amp.initialize(nn.Linear(2, 2).npu(), opt_level="O1", verbosity=0, **options)
        return (torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")).dtype

    assert product(patch_torch_functions="True") == torch.float16
    assert product(patch_torch_functions="False") == torch.float32
    assert product(enabled="True") == torch.float16
    assert product(enabled="False") == torch.float32
    for name in ("enabled", "patch_torch_functions"):
        with pytest.raises(ValueError, match=f"{name} is True or False, not 'no'"):
            product(**{name: "no"})


def test_lists_stay_lists_and_models_may_come_alone():
    models = [nn.Linear(2, 2).npu(), nn.Linear(2, 2).npu()]
    made = [sgd(model.parameters()) for model in models]
    got, optimizers_ = amp.initialize(models, made, opt_level="O2", verbosity=0)
    assert got == models and optimizers_ == made
    assert amp.initialize(nn.Linear(2, 2).npu(), opt_level="O2", verbosity=0).weight.dtype == torch.float16


REFUSED = [
    ({"opt_level": "02"}, "the letter O, not the number zero"),
    ({"opt_level": "O1", "master_weights": True}, "O1 inserts casts"),
    ({"opt_level": "O2", "patch_torch_functions": True}, "only be set by selecting opt_level='O1'"),
    ({"opt_level": "O2", "combine_grad": True, "master_weights": False}, "master_weights should be True"),
    ({"opt_level": "O0", "combine_grad": True}, "combine_grad=True should only be set with"),
]


@pytest.mark.parametrize(
    ("options", "message"), REFUSED, ids=lambda value: "" if isinstance(value, str) else str(value)
)
def test_contradictions_are_refused(options, message):
    model = nn.Linear(2, 2).npu()
    with pytest.raises(RuntimeError, match=message):
        amp.initialize(model, sgd(model.parameters()), **options)


def test_wrong_models_and_orders_are_refused():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="has not been initialized"), amp.scale_loss(torch.ones(()), []):
        pass
    with pytest.raises(RuntimeError, match="Found param weight with type torch.float32 on cpu"):
        amp.initialize(model, opt_level="O1")
    with pytest.raises(RuntimeError, match="Found param weight with type torch.float16"):
        amp.initialize(model.npu().half(), opt_level="O2")
    with pytest.raises(RuntimeError, match="AFTER the model"):
        amp.initialize(nn.DataParallel(nn.Linear(2, 2).npu()), opt_level="O1")
    model = model.float()
    optimizer = sgd(model.parameters())
    amp.initialize(model, optimizer, opt_level="O0", verbosity=0)
    with pytest.raises(RuntimeError, match="only be passed through amp.initialize once"):
        amp.initialize(model, optimizer, opt_level="O0", verbosity=0)
    with (
        pytest.raises(RuntimeError, match="amp.initialize was not"),
        amp.scale_loss(torch.ones((), device="npu"), sgd(model.parameters())),
    ):
        pass
