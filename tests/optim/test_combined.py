"""torch_npu/optim: combined memory, missing gradients, clipping, GradScaler, saving, refusals."""

from __future__ import annotations

import copy
import io

import pytest
import torch

import torch_npu
from torch_npu.optim import NpuFusedAdam, NpuFusedAdamW, NpuFusedRMSprop, NpuFusedSGD
from torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors


def parameter(*values: float, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    made = torch.nn.Parameter(torch.tensor(values, dtype=dtype, device="npu"))
    made.grad = torch.ones_like(made)
    return made


def test_parameters_gradients_and_states_lie_in_one_tensor():
    params = [parameter(1.0, 2.0), parameter(3.0), parameter(4.0, dtype=torch.float16)]
    optimizer = NpuFusedAdam([{"params": params[:1]}, {"params": params[1:]}], lr=0.1)
    assert optimizer.get_combined_params() == [None, None] == optimizer.get_combined_grads()
    optimizer.step()
    single, half = optimizer.get_combined_params()
    assert single.shape == (3,) and half.shape == (1,) and half.dtype == torch.float16
    assert torch.equal(single, torch.cat([params[0].detach(), params[1].detach()]))
    for combined, tensors in zip(optimizer.get_combined_grads(), (params[:2], params[2:]), strict=True):
        assert is_combined_tensor_valid(combined, [p.grad for p in tensors])
    single.fill_(7)
    assert params[0].tolist() == [7, 7] and params[1].tolist() == [7]


def test_bfloat16_comes_third():
    optimizer = NpuFusedSGD([parameter(1.0, dtype=torch.bfloat16)], lr=0.5)
    optimizer.step()
    assert [None if t is None else t.tolist() for t in optimizer.get_combined_params()] == [None, None, [0.5]]


def test_state_dict_has_the_layout_of_torch_optim():
    params = [parameter(1.0, 2.0), parameter(3.0), parameter(5.0)]
    params[1].grad = None
    optimizer = NpuFusedAdam(params, lr=0.1)
    for _ in range(2):
        optimizer.step()
    saved = optimizer.state_dict()
    assert sorted(saved["state"]) == [0, 2]
    assert sorted(saved["state"][0]) == ["exp_avg", "exp_avg_sq", "step"] and saved["state"][0]["step"] == 2
    assert saved["state"][0]["exp_avg"].shape == (2,)
    assert saved["param_groups"][0]["params"] == [0, 1, 2]


def steps(optimizer: torch.optim.Optimizer, params: list[torch.nn.Parameter], number: int) -> None:
    for index in range(number):
        for param in params:
            param.grad.copy_(torch.cos(param.detach() * (index + 1)))
        optimizer.step()


@pytest.mark.parametrize("way", ["load", "file", "copy"])
def test_saved_optimizers_go_on_with_the_same_numbers(way):
    params = [parameter(1.0, 2.0), parameter(3.0)]
    optimizer = NpuFusedRMSprop(params, lr=0.1, momentum=0.9)
    steps(optimizer, params, 3)
    if way == "copy":
        others, other = copy.deepcopy((params, optimizer))
        for param in others:
            param.grad = torch.zeros_like(param)
    else:
        others = [parameter(*param.tolist()) for param in params]
        other = NpuFusedRMSprop(others, lr=7.0)
        steps(other, others, 1)  # what it holds already is replaced
        for mine, its in zip(params, others, strict=True):
            its.data.copy_(mine.data)
        saved = copy.deepcopy(optimizer.state_dict())  # loading does not copy, as in torch.optim
        if way == "file":
            file = io.BytesIO()
            torch.save(saved, file)
            saved = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        other.load_state_dict(saved)
    steps(optimizer, params, 3)
    steps(other, others, 3)
    for mine, its in zip(params, others, strict=True):
        assert torch.equal(mine, its)


def test_a_loaded_state_of_torch_optim_is_used():
    params, others = [parameter(1.0, 2.0)], [parameter(1.0, 2.0)]
    mine, its = NpuFusedSGD(params, lr=0.1, momentum=0.9), torch.optim.SGD(others, lr=0.1, momentum=0.9)
    steps(its, others, 2)
    params[0].data.copy_(others[0].data)
    mine.load_state_dict(its.state_dict())
    steps(mine, params, 2)
    steps(its, others, 2)
    assert torch.equal(params[0], others[0])


def test_each_parameter_counts_its_own_steps_back_in_torch_optim():
    params = [parameter(1.0), parameter(2.0)]
    first, fused, last = torch.optim.Adam(params), NpuFusedAdam(params), torch.optim.Adam(params)
    steps(first, params, 3)
    fused.load_state_dict(first.state_dict())
    steps(fused, params, 3)
    assert [fused.state[p]["step"] for p in params] == [6, 6]
    last.load_state_dict(fused.state_dict())
    steps(last, params, 3)
    assert [last.state[p]["step"].item() for p in params] == [9.0, 9.0]
    assert [first.state[p]["step"].item() for p in params] == [3.0, 3.0]  # loading changes nothing of the other's


UNKNOWN = [
    (torch.optim.SGD, NpuFusedSGD, {"maximize": True}, "NpuFusedSGD has no option maximize, .* maximize=True"),
    (torch.optim.RMSprop, NpuFusedSGD, {}, "NpuFusedSGD has no option alpha, .* alpha=0.99"),
    (torch.optim.AdamW, NpuFusedAdam, {}, "decoupled_weight_decay=True: use NpuFusedAdamW"),
    (torch.optim.Adam, NpuFusedAdamW, {"weight_decay": 0.1}, "decoupled_weight_decay=False: use NpuFusedAdam"),
]


@pytest.mark.parametrize(("kind", "fused", "options", "message"), UNKNOWN)
def test_a_state_with_an_option_that_the_formula_has_not_is_refused(kind, fused, options, message):
    param = parameter(1.0)
    optimizer = fused([param], lr=0.5)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(kind([param], lr=0.1, **options).state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(ValueError, match="has no option maximize"):
        fused([{"params": [param], "maximize": True}], lr=0.1)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adadelta", "RMSprop"])
def test_options_that_change_no_numbers_are_loaded(name):
    param = parameter(1.0)
    its = getattr(torch.optim, name)([param], lr=0.1, foreach=True)
    torch.optim.lr_scheduler.CyclicLR(its, 0.01, 0.1, cycle_momentum=False)
    optimizer = getattr(torch_npu.optim, f"NpuFused{name}")([param], lr=0.5)
    optimizer.load_state_dict(its.state_dict())
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize("name", [name for name in torch_npu.optim.__all__ if name != "NpuFusedOptimizerBase"])
def test_parameters_without_elements_are_left(name):
    param, empty = parameter(1.0), torch.nn.Parameter(torch.ones(0, 3, device="npu"))
    empty.grad = torch.ones_like(empty)
    optimizer = getattr(torch_npu.optim, name)([param, empty], lr=0.5)
    optimizer.step()
    assert empty.shape == (0, 3) and param.item() < 1.0
    getattr(torch_npu.optim, name)([empty], lr=0.5).step()


def test_replaced_gradients_and_parameters_are_followed():
    first, second = parameter(1.0), parameter(1.0)
    optimizer = NpuFusedSGD([first, second], lr=1.0)
    optimizer.step()
    first.grad = torch.full_like(first, 5.0)
    second.grad = None
    optimizer.step()
    assert (first.item(), second.item()) == (-5.0, 0.0)
    second.grad = torch.ones_like(second)
    second.data = torch.full_like(second, 9.0)
    optimizer.step()
    assert (first.item(), second.item()) == (-10.0, 8.0)
    assert optimizer.get_combined_params()[0].tolist() == [-10.0, 8.0]


def test_a_late_group_joins():
    first = parameter(1.0)
    optimizer = NpuFusedAdam([first], lr=0.1)
    optimizer.step()
    late = parameter(1.0)
    optimizer.add_param_group({"params": [late], "lr": 0.5})
    optimizer.step()
    assert first.item() == pytest.approx(0.8) and late.item() == pytest.approx(0.5)
    assert optimizer.state[first]["step"] == 2 and optimizer.state[late]["step"] == 1


def test_backward_accumulates_into_combined_gradients():
    model = torch.nn.Linear(3, 2).npu()
    optimizer = NpuFusedSGD(model.parameters(), lr=0.1)
    inputs = torch.ones(4, 3, device="npu")
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
    combined = optimizer.get_combined_grads()[0]
    assert model.bias.grad.untyped_storage().data_ptr() == combined.untyped_storage().data_ptr()
    assert combined.tolist() == [4.0] * 8


def test_channels_last_weights_keep_their_layout():
    weight = torch.nn.Parameter(torch.randn(4, 3, 2, 2, device="npu").to(memory_format=torch.channels_last))
    before = weight.detach().clone()
    weight.grad = torch.arange(48.0, device="npu").view(4, 3, 2, 2)
    NpuFusedSGD([weight], lr=0.5).step()
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(weight.detach(), before - 0.5 * torch.arange(48.0, device="npu").view(4, 3, 2, 2))


def test_zero_grad_keeps_the_memory():
    first, second = parameter(1.0), parameter(1.0)
    optimizer = NpuFusedSGD([first, second], lr=1.0)
    optimizer.zero_grad()
    assert first.grad.item() == 0.0
    optimizer.step()
    second.grad = torch.full_like(second, 3.0)
    optimizer.zero_grad()
    assert first.grad.item() == second.grad.item() == 0.0
    with pytest.raises(ValueError, match="set_to_none is not supported in fused optimizers"):
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("norm_type", [2, 1, 3.0, float("inf")])
def test_clip_grad_norm_fused_is_clip_grad_norm(norm_type):
    values = [(3.0, -4.0), (12.0,)]
    params, others = [parameter(*v) for v in values], [parameter(*v) for v in values]
    params.append(parameter(2.0, dtype=torch.float16))
    others.append(parameter(2.0, dtype=torch.float16))
    for param in params + others:
        param.grad.copy_(param.detach())
    optimizer = NpuFusedSGD(params, lr=1.0)
    norm = optimizer.clip_grad_norm_fused_(1.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(others, 1.5, norm_type, foreach=False)
    assert norm.dtype == torch.float32 and norm.item() == pytest.approx(expected.item(), rel=1e-5)
    for param, other in zip(params, others, strict=True):
        assert torch.allclose(param.grad, other.grad, rtol=1e-3 if param.dtype == torch.float16 else 1e-6)


def test_clip_leaves_small_gradients_and_counts_no_absent_ones():
    first, second = parameter(1.0), parameter(1.0)
    optimizer = NpuFusedSGD([first, second], lr=0.0)
    optimizer.step()
    second.grad = None
    assert optimizer.clip_grad_norm_fused_(2.0).item() == 1.0 and first.grad.item() == 1.0
    assert NpuFusedSGD([torch.nn.Parameter(first.detach().clone())], lr=0.1).clip_grad_norm_fused_(1.0).item() == 0.0
    with pytest.raises(ValueError, match="could not convert"):
        optimizer.clip_grad_norm_fused_("large")


def test_grad_scaler_unscales_and_skips():
    param = parameter(1.0)
    optimizer = NpuFusedSGD([param], lr=1.0)
    scaler = torch.amp.GradScaler("npu", init_scale=8.0, growth_interval=100)
    seen = []
    for value in (1.0, float("inf"), 2.0):
        optimizer.zero_grad()
        scaler.scale((param * value).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(param.item())
    assert seen == [0.0, 0.0, -2.0] and scaler.get_scale() == 4.0


def test_a_closure_is_evaluated_with_gradients():
    param = parameter(3.0)
    optimizer = NpuFusedSGD([param], lr=0.5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0 and param.item() == 0.0


def test_a_scheduler_sets_the_rate():
    param = parameter(1.0)
    optimizer = NpuFusedSGD([param], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    assert param.item() == -0.5


def test_what_cannot_be_combined_is_refused():
    lone = torch.nn.Parameter(torch.ones(2))
    lone.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="NpuFusedSGD combines parameters on the npu, but group 0 has one on cpu"):
        NpuFusedSGD([lone], lr=0.1).step()
    double = parameter(1.0, dtype=torch.float64)
    with pytest.raises(TypeError, match="must be float32, float16 or bfloat16, but received torch.float64"):
        NpuFusedSGD([double], lr=0.1).step()
    there = torch.nn.Parameter(torch.ones(2, device="npu:1"))
    there.grad = torch.ones_like(there)
    with pytest.raises(RuntimeError, match="combines parameters of one npu, but they are on npu:0 and npu:1"):
        NpuFusedSGD([parameter(1.0), there], lr=0.1).step()


def test_combined_tensors_of_programs():
    first, second = torch.ones(2, device="npu"), torch.zeros(2, 2, device="npu")
    combined = npu_combine_tensors([first, second])
    first.add_(5)
    assert combined.tolist() == [6, 6, 0, 0, 0, 0]
    assert is_combined_tensor_valid(combined, [first, second]) and is_combined_tensor_valid(None, [])
    assert not is_combined_tensor_valid(combined, [first.clone()])
    assert get_part_combined_tensor(combined, 1, 2).tolist() == [6, 0]
    assert get_part_combined_tensor(combined, 1, 0) is None is npu_combine_tensors([])
    assert npu_combine_tensors([torch.ones(3, device="npu")], require_copy_value=False).shape == (3,)
    with pytest.raises(RuntimeError, match="ends behind the combined tensor, which has 6"):
        get_part_combined_tensor(combined, 4, 9)
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        npu_combine_tensors([first, second.half()])
    with pytest.raises(RuntimeError, match="must be on NPU, got cpu"):
        npu_combine_tensors([torch.ones(2)])
