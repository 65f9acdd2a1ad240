"""torch_npu/optim: the ten fused optimizers against torch.optim or their formula, forty steps, in three dtypes."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import pytest
import torch

import torch_npu
from tests.optim import references

SHAPES = [(6, 4), (5,), (2, 3, 2, 2), (7,), (20, 9)]
STEPS = 40
PLAIN = {"foreach": False, "fused": False}

CASES = [
    ("NpuFusedSGD", torch.optim.SGD, {}),
    ("NpuFusedSGD", torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
    ("NpuFusedSGD", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    ("NpuFusedAdadelta", torch.optim.Adadelta, {"rho": 0.8}),
    ("NpuFusedAdam", torch.optim.Adam, {}),
    ("NpuFusedAdam", torch.optim.Adam, {"amsgrad": True, "betas": (0.8, 0.95)}),
    ("NpuFusedAdamW", torch.optim.AdamW, {"eps": 1e-6}),
    ("NpuFusedAdamW", torch.optim.AdamW, {"amsgrad": True, "betas": (0.8, 0.95)}),
    ("NpuFusedRMSprop", torch.optim.RMSprop, {}),
    ("NpuFusedRMSprop", torch.optim.RMSprop, {"momentum": 0.9, "centered": True, "alpha": 0.9}),
    ("NpuFusedRMSpropTF", references.RMSpropTF, {}),
    ("NpuFusedRMSpropTF", references.RMSpropTF, {"momentum": 0.9, "centered": True}),
    ("NpuFusedRMSpropTF", references.RMSpropTF, {"momentum": 0.9, "lr_in_momentum": False, "decoupled_decay": True}),
    ("NpuFusedLamb", references.Lamb, {}),
    ("NpuFusedLamb", references.Lamb, {"adam": True, "betas": (0.8, 0.95)}),
    ("NpuFusedLamb", references.Lamb, {"use_global_grad_norm": True}),
    ("NpuFusedAdamP", references.AdamP, {"delta": 0.3}),
    ("NpuFusedAdamP", references.AdamP, {"nesterov": True, "wd_ratio": 0.3, "delta": 0.6}),
    ("NpuFusedBertAdam", references.BertAdam, {}),
    ("NpuFusedBertAdam", references.BertAdam, {"t_total": 60, "warmup": 0.3, "max_grad_norm": -1}),
    ("NpuFusedBertAdam", references.BertAdam, {"t_total": 30, "warmup": 0.5}),
    ("NpuFusedBertAdam", references.BertAdam, {"t_total": 60, "warmup": 0.1, "schedule": "warmup_cosine"}),
    ("NpuFusedBertAdam", references.BertAdam, {"t_total": 60, "warmup": 0.1, "schedule": "warmup_poly"}),
    ("NpuFusedBertAdam", references.BertAdam, {"t_total": 60, "warmup": 0.1, "schedule": "warmup_constant"}),
]
IDS = [f"{name[8:]}-{'-'.join(options) or 'default'}-{index}" for index, (name, _, options) in enumerate(CASES)]


@functools.cache
def inputs(steps: int = STEPS) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Parameters, and gradients of each step; the third parameter's gradient is nearly orthogonal to it."""
    generator = torch.Generator().manual_seed(4)
    params = [torch.randn(shape, generator=generator) for shape in SHAPES]
    grads = [[torch.randn(shape, generator=generator) for shape in SHAPES] for _ in range(steps)]
    for step in grads:
        flat = params[2].reshape(2, -1)
        matrix = step[2].reshape(2, -1)
        matrix -= flat * (matrix * flat).sum(1, keepdim=True) / (flat * flat).sum(1, keepdim=True)
    return params, grads


def train(make, dtype: torch.dtype, device: str, steps: int = STEPS) -> list[torch.Tensor]:
    """The parameters after all steps. The second has no gradient in every third step, the fourth joins late."""
    start, gradients = inputs(steps)
    params = [torch.nn.Parameter(p.to(device, dtype)) for p in start]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.02, "weight_decay": 0.03}]
    optimizer = make(groups)
    for number, step in enumerate(gradients):
        for index, (param, grad) in enumerate(zip(params, step, strict=True)):
            absent = (index == 1 and number % 3 == 2) or (index == 3 and number < 5)
            param.grad = None if absent else grad.to(device, dtype)
        optimizer.step()
    return [param.detach().double().cpu() for param in params]


@pytest.mark.parametrize(("name", "reference", "options"), CASES, ids=IDS)
def test_forty_steps_are_the_reference(name, reference, options):
    fused = functools.partial(getattr(torch_npu.optim, name), lr=0.01, **options)
    plain = PLAIN if reference in (torch.optim.Adam, torch.optim.AdamW) else {}
    expected = train(functools.partial(reference, lr=0.01, **options, **plain), torch.float64, "cpu")
    for value, wanted in zip(train(fused, torch.float32, "npu"), expected, strict=True):
        assert torch.allclose(value, wanted, atol=2e-5, rtol=2e-5)


HALF = [case for case in CASES if case[1].__module__.startswith("torch.optim")]


@pytest.mark.parametrize("way", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"])
@pytest.mark.parametrize(("name", "options"), [(name, options) for name, _, options in CASES], ids=IDS)
def test_a_copy_goes_on_with_the_same_numbers(name, options, way):
    params = [torch.nn.Parameter(p.npu()) for p in inputs()[0]]
    optimizer = getattr(torch_npu.optim, name)(params, lr=0.01, **options)
    pairs = [(params, optimizer)]
    for number in range(3):
        for members, one in pairs:
            for param, grad in zip(members, inputs()[1][number], strict=True):
                param.grad = 3 * grad.npu()
            one.step()
        if number == 0:
            pairs.append(way(pairs[0]))
    for mine, its in zip(params, pairs[1][0], strict=True):
        assert mine is not its and torch.equal(mine, its)


def test_a_copy_still_requires_what_was_required():
    copied = copy.deepcopy(torch_npu.optim.NpuFusedSGD([{"params": [torch.nn.Parameter(torch.ones(1))], "lr": 1.0}]))
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        copied.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "reference", "options"), HALF)
def test_half_precision_rounds_where_torch_optim_does(name, reference, options, dtype):
    options = options | ({} if name == "NpuFusedSGD" else {"eps": 1e-3})  # 1e-8 is 0 in float16, for torch.optim, too
    plain = {"foreach": False} | ({"fused": False} if name[8:] in ("SGD", "Adam", "AdamW") else {})
    fused = functools.partial(getattr(torch_npu.optim, name), lr=0.01, **options)
    expected = train(functools.partial(reference, lr=0.01, **options, **plain), dtype, "npu", 10)
    for value, wanted in zip(train(fused, dtype, "npu", 10), expected, strict=True):
        assert torch.allclose(value, wanted, atol=2 * torch.finfo(dtype).eps, rtol=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["NpuFusedLamb", "NpuFusedAdamP", "NpuFusedBertAdam", "NpuFusedRMSpropTF"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_follows_the_formula(name, dtype):
    options = {"e": 1e-2} if name == "NpuFusedBertAdam" else {"eps": 1e-2}
    expected = train(functools.partial(getattr(references, name[8:]), lr=0.01, **options), torch.float64, "cpu", 5)
    values = train(functools.partial(getattr(torch_npu.optim, name), lr=0.01, **options), dtype, "npu", 5)
    for value, wanted in zip(values, expected, strict=True):
        assert (value - wanted).abs().max() < 16 * torch.finfo(dtype).eps


@pytest.mark.parametrize("schedule", ["warmup_poly", "warmup_linear"])
def test_behind_the_last_step_of_the_schedule_nothing_moves(schedule):
    param = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch_npu.optim.NpuFusedBertAdam([param], lr=0.1, warmup=0.1, t_total=2, schedule=schedule)
    seen = []
    for _ in range(5):
        param.grad = torch.ones_like(param)
        optimizer.step()
        seen.append(param[0].item())
    assert seen[0] == 1.0 > seen[1] == seen[2] == seen[3] == seen[4]


SIGNATURES = {  # the vendor's names, order and defaults
    "NpuFusedAdadelta": "(params, lr=1.0, rho=0.9, eps=1e-06, weight_decay=0)",
    "NpuFusedAdam": "(params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False)",
    "NpuFusedAdamP": "(params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, delta=0.1, wd_ratio=0.1, "
    "nesterov=False)",
    "NpuFusedAdamW": "(params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False)",
    "NpuFusedBertAdam": "(params, lr=<required parameter>, warmup=-1, t_total=-1, schedule='warmup_linear', b1=0.9, "
    "b2=0.999, e=1e-06, weight_decay=0.01, max_grad_norm=1.0)",
    "NpuFusedLamb": "(params, lr=0.001, betas=(0.9, 0.999), eps=1e-06, weight_decay=0, adam=False, "
    "use_global_grad_norm=False)",
    "NpuFusedOptimizerBase": "(params, default)",
    "NpuFusedRMSprop": "(params, lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, centered=False)",
    "NpuFusedRMSpropTF": "(params, lr=0.01, alpha=0.9, eps=1e-10, weight_decay=0, momentum=0.0, centered=False, "
    "decoupled_decay=False, lr_in_momentum=True)",
    "NpuFusedSGD": "(params, lr=<required parameter>, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False)",
}


def test_signatures_are_the_vendors():
    assert set(SIGNATURES) == set(torch_npu.optim.__all__)
    for name, wanted in SIGNATURES.items():
        signature = inspect.signature(getattr(torch_npu.optim, name))
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        assert str(inspect.Signature(bare)) == wanted, name


WRONG = [
    ("NpuFusedSGD", {"lr": -1.0}, "Invalid learning rate: -1.0"),
    ("NpuFusedSGD", {}, "required optimization parameter lr"),
    ("NpuFusedSGD", {"lr": 0.1, "momentum": -1}, "Invalid momentum value: -1"),
    ("NpuFusedSGD", {"lr": 0.1, "nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("NpuFusedAdadelta", {"rho": 2.0}, "Invalid rho value: 2.0"),
    ("NpuFusedAdam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("NpuFusedAdamW", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("NpuFusedAdamP", {"eps": -1}, "Invalid epsilon value: -1"),
    ("NpuFusedLamb", {"betas": (0.9, -1)}, "Invalid beta parameter at index 1: -1"),
    ("NpuFusedBertAdam", {"lr": 0.1, "schedule": "x"}, "Invalid schedule parameter: x"),
    ("NpuFusedBertAdam", {"lr": 0.1, "warmup": 2.0}, "Invalid warmup: 2.0"),
    ("NpuFusedBertAdam", {"lr": 0.1, "t_total": 0}, "Invalid t_total: 0 - should be at least 1, or -1"),
    ("NpuFusedRMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
    ("NpuFusedRMSpropTF", {"momentum": -1}, "Invalid momentum value: -1"),
]


@pytest.mark.parametrize(("name", "options", "message"), WRONG)
def test_wrong_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(torch_npu.optim, name)([torch.nn.Parameter(torch.ones(2, device="npu"))], **options)
