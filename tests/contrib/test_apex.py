"""torch_npu/contrib/apex: optimizers, norms, multi_tensor_apply, the name `apex`."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import sys

import pytest
import torch

from tests import forked
from torch_npu.contrib import apex
from torch_npu.contrib.apex import multi_tensor_apply, normalization, optimizers

SHAPES = [(4, 3), (5,), (2, 3, 2)]


def lamb(params, grads, m, v, step, lr, betas, eps, decay, limit, adam_w, averaging, nvlamb, correct):
    """A step of LAMB by its formula, in place."""
    norm = math.sqrt(sum(float((g * g).sum()) for g in grads))
    clip = max(norm / limit, 1.0) if limit else 1.0
    for p, g, a, b in zip(params, grads, m, v, strict=True):
        g = g / clip + (0 if adam_w else decay) * p
        a.mul_(betas[0]).add_(g * (1 - betas[0] if averaging else 1.0))
        b.mul_(betas[1]).add_(g * g * (1 - betas[1]))
        first, second = (1 - betas[0] ** step, 1 - betas[1] ** step) if correct else (1.0, 1.0)
        update = (a / first) / ((b / second).sqrt() + eps) + (decay if adam_w else 0) * p
        ratio = float(p.norm() / update.norm()) if nvlamb or decay else 1.0
        p.sub_(lr * ratio * update)


def run(make, dtype=torch.float32, steps=12) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(s, generator=generator).to("npu", dtype)) for s in SHAPES]
    optimizer = make(params)
    for step in range(steps):
        for index, p in enumerate(params):
            grad = torch.randn(p.shape, generator=generator)
            p.grad = None if index == 1 and step % 3 == 2 else grad.to("npu", dtype)
        optimizer.step()
    return [p.detach().double().cpu() for p in params]


SAME = [
    (optimizers.FusedAdam, torch.optim.AdamW, {"weight_decay": 0.1}, {}),
    (optimizers.FusedAdam, torch.optim.Adam, {"weight_decay": 0.1}, {"adam_w_mode": False}),
    (optimizers.FusedSGD, torch.optim.SGD, {"weight_decay": 0.1}, {}),
    (optimizers.FusedSGD, torch.optim.SGD, {"momentum": 0.9, "dampening": 0.2}, {}),
    (optimizers.FusedSGD, torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {}),
]


@pytest.mark.parametrize(("mine", "theirs", "options", "own"), SAME)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_fused_optimizers_are_those_of_torch(mine, theirs, options, own, dtype):
    steps = 12 if theirs is torch.optim.SGD else 2  # Adam's count is the group's, and one parameter is absent at times
    values = run(functools.partial(mine, lr=0.05, **options, **own), dtype, steps)
    wanted = run(functools.partial(theirs, lr=0.05, foreach=False, **options), torch.float32, steps)
    allowed = 1e-5 if dtype == torch.float32 else steps * 2 * torch.finfo(dtype).eps
    for value, want in zip(values, wanted, strict=True):
        assert (value - want).abs().max() < allowed


@pytest.mark.parametrize(
    "own", [{}, {"adam_w_mode": False}, {"weight_decay": 0.0}, {"weight_decay": 0.0, "use_nvlamb": True},
            {"grad_averaging": False, "bias_correction": False, "max_grad_norm": 0.0}]
)  # fmt: skip
def test_fused_lamb_is_its_formula(own):
    generator = torch.Generator().manual_seed(3)
    start = [torch.randn(s, generator=generator).double() for s in SHAPES]
    params = [torch.nn.Parameter(p.float().npu()) for p in start]
    optimizer = optimizers.FusedLAMB(params, lr=0.05, **own)
    m, v = [torch.zeros_like(p) for p in start], [torch.zeros_like(p) for p in start]
    for step in range(1, 11):
        grads = [torch.randn(s, generator=generator) for s in SHAPES]
        for p, g in zip(params, grads, strict=True):
            p.grad = g.npu()
        optimizer.step()
        lamb(
            start, [g.double() for g in grads], m, v, step, 0.05, (0.9, 0.999), 1e-6, own.get("weight_decay", 0.01),
            own.get("max_grad_norm", 1.0), own.get("adam_w_mode", True), own.get("grad_averaging", True),
            own.get("use_nvlamb", False), own.get("bias_correction", True),
        )  # fmt: skip
    for p, want in zip(params, start, strict=True):
        assert torch.allclose(p.detach().double().cpu(), want, atol=1e-5, rtol=1e-5)


def test_fused_sgd_can_decay_after_momentum():
    param = torch.nn.Parameter(torch.ones(1, device="npu"))
    optimizer = optimizers.FusedSGD([param], lr=1.0, momentum=0.5, weight_decay=0.25, wd_after_momentum=True)
    for wanted in (1 - (1 + 0.25), -0.25 - (1.5 - 0.0625)):
        param.grad = torch.ones_like(param)
        optimizer.step()
        assert param.item() == pytest.approx(wanted)


OPTIONS = [("FusedAdam", "adam_w_mode"), ("FusedSGD", "wd_after_momentum"), ("FusedLAMB", "use_nvlamb")]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_copy_has_the_options_of_the_instance(name, option):
    made = getattr(optimizers, name)([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    setattr(made, option, not getattr(made, option))
    made.set_grad_none = False
    copied = copy.deepcopy(made)
    assert getattr(copied, option) is getattr(made, option) and copied.set_grad_none is False


def test_zero_grad_removes_or_fills():
    for make, gone in ((optimizers.FusedAdam, True), (functools.partial(optimizers.FusedSGD, lr=0.1), False)):
        param = torch.nn.Parameter(torch.ones(1, device="npu"))
        param.grad = torch.ones_like(param)
        optimizer = make([param])
        optimizer.zero_grad()
        assert (param.grad is None) == gone


def test_states_of_half_parameters_are_float32_after_loading():
    param = torch.nn.Parameter(torch.ones(3, dtype=torch.float16, device="npu"))
    optimizer = optimizers.FusedAdam([param])
    for _ in range(2):
        param.grad = torch.full_like(param, 0.5)
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert optimizer.state[param]["exp_avg"].dtype == torch.float32 and optimizer.param_groups[0]["step"] == 3


@pytest.mark.parametrize("make", [optimizers.FusedAdam, optimizers.FusedLAMB])
def test_saved_states_of_half_parameters_lose_nothing(make):
    def ended(saved: bool) -> torch.Tensor:
        param = torch.nn.Parameter(torch.ones(3, dtype=torch.float16, device="npu"))
        optimizer = make([param], lr=0.01)
        for step in range(6):
            param.grad = torch.full_like(param, 1e-4 * (step + 1))  # its square is nothing in float16
            optimizer.step()
            if saved:
                state = copy.deepcopy(optimizer.state_dict())
                optimizer = make([param], lr=0.01)
                optimizer.load_state_dict(state)
                state["state"][0]["exp_avg"].zero_()  # a state loaded is the optimizer's own
        return param.detach()

    assert torch.equal(ended(True), ended(False))


def test_options_that_apex_or_we_do_not_have_are_refused():
    params = [torch.nn.Parameter(torch.ones(1, device="npu"))]
    for make in (optimizers.FusedAdam, optimizers.FusedLAMB):
        with pytest.raises(RuntimeError, match="does not support the AMSGrad variant"):
            make(params, amsgrad=True)
    with pytest.raises(NotImplementedError, match="capturable and master_weights"):
        optimizers.FusedAdam(params, capturable=True)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optimizers.FusedSGD(params, lr=-1)
    with pytest.raises(ValueError, match="Nesterov"):
        optimizers.FusedSGD(params, lr=0.1, nesterov=True)
    with pytest.raises(NotImplementedError, match="materialize_master_grads"):
        optimizers.FusedSGD(params, lr=0.1, materialize_master_grads=False)
    with pytest.raises(NotImplementedError, match="memory_efficient"):
        normalization.FusedLayerNorm(4, memory_efficient=True)
    with pytest.raises(NotImplementedError, match="channel_last"):
        apex.parallel.convert_syncbn_model(torch.nn.BatchNorm2d(2), channel_last=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_norms_are_their_formulas_with_gradients(dtype):
    x = torch.randn(3, 5, 8)
    for module, centred in ((normalization.FusedLayerNorm, True), (normalization.FusedRMSNorm, False)):
        norm = module(8, eps=1e-5).npu().to(dtype)
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 2, 8))
        inputs = x.to("npu", dtype).requires_grad_()
        norm(inputs).square().sum().backward()
        exact = inputs.detach().double().cpu().requires_grad_()
        shifted = exact - exact.mean(-1, keepdim=True) if centred else exact
        weight = norm.weight.detach().double().cpu()
        want = shifted / (shifted.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
        want.square().sum().backward()
        limit = 1e-4 if dtype == torch.float32 else 40 * torch.finfo(dtype).eps
        assert (norm(inputs).double().cpu() - want).abs().max() < limit
        assert (inputs.grad.double().cpu() - exact.grad).abs().max() < limit


def test_mixed_norms_return_the_weights_dtype():
    for module in (normalization.MixedFusedLayerNorm, normalization.MixedFusedRMSNorm):
        assert module(8).npu()(torch.randn(2, 8, device="npu").half()).dtype == torch.float32
    x, weight = torch.randn(2, 8, device="npu"), torch.ones(8, device="npu")
    plain = normalization.fused_layer_norm(x, 8)
    assert torch.equal(normalization.fused_layer_norm_affine(x, weight, torch.zeros_like(weight), (8,)), plain)
    assert torch.allclose(
        normalization.fused_rms_norm_affine(x, weight, 8), normalization.fused_rms_norm(x, [8]), atol=1e-6
    )


def test_multi_tensor_operators():
    flag = torch.zeros(1, dtype=torch.int, device="npu")
    apply = multi_tensor_apply.multi_tensor_applier
    sources = [torch.full((2,), 4.0, device="npu").half(), torch.full((3,), 2.0, device="npu")]
    targets = [torch.empty(2, device="npu"), torch.empty(3, device="npu")]
    apply(multi_tensor_apply.multi_tensor_scale, flag, [sources, targets], 0.25)
    assert [t.tolist() for t in targets] == [[1, 1], [0.5] * 3] and flag.item() == 0
    apply(multi_tensor_apply.multi_tensor_axpby, flag, [targets, targets, targets], 2.0, 1.0, -1)
    assert [t.tolist() for t in targets] == [[3, 3], [1.5] * 3]
    total, each = apply(multi_tensor_apply.multi_tensor_l2norm, flag, [targets], True)
    assert total.item() == pytest.approx(math.sqrt(18 + 6.75)) and each.shape == (2,)
    targets[1][0] = float("inf")
    apply(multi_tensor_apply.multi_tensor_axpby, flag, [sources, targets, targets], 1.0, 1.0, 0)
    assert flag.item() == 0
    apply(multi_tensor_apply.multi_tensor_scale, flag, [targets, targets], 1.0)
    assert flag.item() == 1


def test_sync_batch_norms_replace_batch_norms():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3)).npu()
    weight = model[1].weight
    model = apex.parallel.convert_syncbn_model(model)
    assert isinstance(model[1], apex.parallel.SyncBatchNorm) and model[1].weight is weight


def test_signatures_are_those_of_apex():
    wanted = {
        optimizers.FusedAdam: "params, lr, bias_correction, betas, eps, adam_w_mode, weight_decay, amsgrad, "
        "set_grad_none, capturable, master_weights",
        optimizers.FusedSGD: "params, lr, momentum, dampening, weight_decay, nesterov, wd_after_momentum, "
        "materialize_master_grads, set_grad_none",
        optimizers.FusedLAMB: "params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode, "
        "grad_averaging, set_grad_none, max_grad_norm, use_nvlamb",
        apex.parallel.DistributedDataParallel: "module, message_size, delay_allreduce, shared_param, "
        "allreduce_trigger_params, retain_allreduce_buffers, allreduce_always_fp32, num_allreduce_streams, "
        "allreduce_communicators, gradient_average, gradient_predivide_factor, gradient_average_split_factor, prof",
    }
    for made, names in wanted.items():
        assert ", ".join(inspect.signature(made).parameters) == names


PROGRAM = """
import apex
from apex import amp
from apex.optimizers import NpuFusedRMSprop
from apex.parallel import DistributedDataParallel
import apex.contrib.combine_tensors
print(apex.__name__, amp.initialize.__module__)
"""


def test_the_name_apex_is_given_on_request(tmp_path):
    written = forked.run(["-m", "torch_npu.contrib.apex", tmp_path])
    assert written.stdout.strip() == str(tmp_path / "apex.py") and written.returncode == 0, written.stderr
    (tmp_path / "script.py").write_text(PROGRAM)
    done = forked.run([tmp_path / "script.py"])
    assert done.stdout.split() == ["torch_npu.contrib.apex", "torch_npu.contrib.apex.amp.frontend"], done.stderr
    for other in (b"other = 1", b"# \xff no UTF-8"):
        (tmp_path / "apex.py").write_bytes(other)
        with pytest.raises(FileExistsError, match="has another apex"):
            apex.install(tmp_path)


def test_the_folder_for_the_name_is_made(tmp_path):
    folder = tmp_path / "some" / "folder"
    done = forked.run(["-m", "torch_npu.contrib.apex", folder])
    assert done.stdout.strip() == str(folder / "apex.py") and done.returncode == 0, done.stderr
    (folder / "apex.py").rename(folder / "file")
    done = forked.run(["-m", "torch_npu.contrib.apex", folder / "file"])
    assert done.returncode == 1 and done.stderr.startswith("python -m torch_npu.contrib.apex: [Errno ")
    assert "Traceback" not in done.stderr and str(folder / "file") in done.stderr


def test_another_apex_keeps_its_name(tmp_path, monkeypatch):
    (tmp_path / "apex").mkdir()
    (tmp_path / "apex" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "apex", raising=False)
    with pytest.raises(ImportError, match="another apex is installed"):
        apex.install()
