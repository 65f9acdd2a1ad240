"""Loss scaling against PyTorch's GradScaler on the CPU: the same scales, the same steps, the same skips."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from torch_npu.npu import amp

OPTIONS = {"init_scale": 2.0**8, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2}


def scalers() -> list:
    return [
        pytest.param(lambda **k: amp.GradScaler(**k), id="torch_npu.npu.amp"),
        pytest.param(lambda **k: torch.amp.GradScaler("npu", **k), id="torch.amp"),
    ]


def run(scaler, device: str, gradients: list[list[float]]) -> list[tuple[float, int, list[float]]]:
    """Give a parameter these gradients one after the other: scale, growth tracker and value after each step."""
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0], device=device))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    trace = []
    for gradient in gradients:
        optimizer.zero_grad()
        scaler.scale((parameter * torch.tensor(gradient, device=device)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        trace.append((scaler.get_scale(), scaler._get_growth_tracker(), parameter.tolist()))
    return trace


INF, NAN = float("inf"), float("nan")
RUNS = {
    "growth": [[1.0, 1.0]] * 5,
    "overflow": [[1.0, 1.0], [INF, 1.0], [1.0, 1.0], [1.0, 1.0]],
    "nan": [[NAN, 1.0]] * 3 + [[0.5, -0.25]] * 3,
    "mixed": [[1.0, -INF], [1.0, 2.0], [2.0, 2.0], [1.0, NAN], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]],
}


@pytest.mark.parametrize("make", scalers())
@pytest.mark.parametrize("name", RUNS)
def test_scale_and_parameters_follow_the_cpu(make, name: str) -> None:
    wanted = run(torch.amp.GradScaler("cpu", **OPTIONS), "cpu", RUNS[name])
    assert run(make(**OPTIONS), "npu", RUNS[name]) == wanted


def test_an_overflowing_step_is_skipped_and_halves_the_scale() -> None:
    assert run(amp.GradScaler(**OPTIONS), "npu", [[INF, 1.0]]) == [(128.0, 0, [1.0, 2.0])]


def test_growth_after_growth_interval_good_steps() -> None:
    assert [scale for scale, _, _ in run(amp.GradScaler(**OPTIONS), "npu", [[1.0, 1.0]] * 4)] == [256, 512, 512, 1024]


def test_dynamic_false_keeps_the_scale_and_still_skips() -> None:
    trace = run(amp.GradScaler(**OPTIONS, dynamic=False), "npu", RUNS["mixed"])
    assert [scale for scale, _, _ in trace] == [256.0] * len(trace)
    values = [value for _, _, value in run(torch.amp.GradScaler("cpu", **OPTIONS), "cpu", RUNS["mixed"])]
    assert [value for _, _, value in trace] == values


def test_default_scale_and_positional_arguments_of_the_vendor() -> None:
    assert amp.GradScaler().get_scale() == 65536.0
    scaler = amp.GradScaler(2.0, 4.0, 0.25, 7, False, True)
    assert (scaler.get_scale(), scaler.get_growth_factor(), scaler.get_backoff_factor()) == (2.0, 4.0, 0.25)
    assert (scaler.get_growth_interval(), scaler._dynamic, scaler.is_enabled()) == (7, False, True)


def test_disabled_is_transparent() -> None:
    scaler = amp.GradScaler(enabled=False)
    x = torch.ones(1, device="npu")
    assert scaler.scale(x) is x
    assert run(scaler, "npu", [[1.0, 1.0]])[0][2] == [0.5, 1.5]
    assert scaler.state_dict() == {}


def test_unscale_gives_true_gradients_for_clipping() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), amp.GradScaler(init_scale=1024.0)
    scaler.scale((parameter * torch.tensor([3.0, 0.0, 4.0], device="npu")).sum()).backward()
    assert parameter.grad.tolist() == [3072.0, 0.0, 4096.0]
    scaler.unscale_(optimizer)
    assert parameter.grad.tolist() == [3.0, 0.0, 4.0]
    norm = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert norm.item() == 5.0
    torch.testing.assert_close(parameter.detach().cpu(), 1 - torch.tensor([0.6, 0.0, 0.8]), rtol=1e-5, atol=1e-6)


def test_unscale_twice_is_an_error() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, device="npu"))
    optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), amp.GradScaler()
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_several_optimizers_and_one_overflow() -> None:
    good, bad = (torch.nn.Parameter(torch.ones(1, device="npu")) for _ in range(2))
    optimizers = [torch.optim.SGD([p], lr=1.0) for p in (good, bad)]
    scaler = amp.GradScaler(init_scale=4.0)
    scaler.scale(good.sum() + (bad * INF).sum()).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    assert (good.item(), bad.item(), scaler.get_scale()) == (0.0, 1.0, 2.0)


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_adam(options: dict) -> None:
    def train(device: str, scaler) -> list[float]:
        parameter = torch.nn.Parameter(torch.tensor([1.0, -1.0], device=device))
        optimizer = torch.optim.Adam([parameter], lr=0.1, **options)
        for gradient in ([1.0, 2.0], [INF, 1.0], [0.5, 1.0]):
            optimizer.zero_grad()
            scaler.scale((parameter * torch.tensor(gradient, device=device)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return parameter.tolist()

    wanted = train("cpu", torch.amp.GradScaler("cpu", init_scale=8.0))
    assert train("npu", amp.GradScaler(init_scale=8.0)) == pytest.approx(wanted, rel=1e-5)


def test_new_scale_as_number_and_tensor() -> None:
    scaler = amp.GradScaler(init_scale=8.0)
    scaler.scale(torch.ones(1, device="npu"))
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    scaler.update(torch.full((), 2.0, device="npu"))
    assert scaler.get_scale() == 2.0


def test_scale_of_lists_keeps_their_form() -> None:
    x = torch.ones(2, device="npu")
    first, (second,) = amp.GradScaler(init_scale=8.0).scale([x, (x,)])
    assert first.tolist() == second.tolist() == [8.0, 8.0]


def test_state_dict_round_trip() -> None:
    scaler = amp.GradScaler(**OPTIONS, dynamic=False)
    run(scaler, "npu", [[1.0, 1.0]])
    other = amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert other._dynamic is False


def test_state_of_a_cuda_run_loads_and_ours_loads_there() -> None:
    stock = torch.amp.GradScaler("cpu", **OPTIONS)
    run(stock, "cpu", [[1.0, 1.0]])
    scaler = amp.GradScaler()
    scaler.load_state_dict(stock.state_dict())
    assert (scaler.get_scale(), scaler._get_growth_tracker(), scaler._dynamic) == (256.0, 1, True)
    stock.load_state_dict(scaler.state_dict())
    assert stock.get_scale() == 256.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_continue(duplicate) -> None:
    scaler = amp.GradScaler(**OPTIONS)
    run(scaler, "npu", [[1.0, 1.0]])
    assert run(duplicate(scaler), "npu", [[1.0, 1.0]])[0][:2] == (512.0, 0)


def test_float16_gradients_are_refused() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, device="npu", dtype=torch.float16))
    optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), amp.GradScaler(init_scale=1.0)
    scaler.scale(parameter.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


@pytest.mark.parametrize("values, found", [([1.0, 4.0], 0.0), ([1.0, INF], 1.0), ([NAN, 1.0], 1.0)])
def test_the_check_and_unscale_operator(values: list[float], found: float) -> None:
    gradients = [torch.tensor(values, device="npu"), torch.ones(2, 3, device="npu")]
    found_inf = torch.zeros(1, device="npu")
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, torch.full((1,), 0.25, device="npu"))
    assert found_inf.item() == found
    assert torch.equal(gradients[1].cpu(), torch.full((2, 3), 0.25))


@pytest.mark.parametrize(
    "scale, tracker, found, wanted", [(8.0, 0, 0.0, (8.0, 1)), (8.0, 1, 0.0, (16.0, 0)), (8.0, 1, 1.0, (4.0, 0))]
)
def test_the_update_operator(scale: float, tracker: int, found: float, wanted: tuple[float, int]) -> None:
    scale_t = torch.full((1,), scale, device="npu")
    tracker_t = torch.full((1,), tracker, device="npu", dtype=torch.int32)
    torch._amp_update_scale_(scale_t, tracker_t, torch.full((1,), found, device="npu"), 2.0, 0.5, 2)
    assert (scale_t.item(), tracker_t.item()) == wanted
