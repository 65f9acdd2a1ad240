"""Where a tensor ends up when a script says cuda: one row a way of saying it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

CUDA, CUDA1 = torch.device("cuda"), torch.device("cuda", 1)


def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def n() -> torch.Tensor:
    return x().npu()


# (what, where it must be, the same on the CPU or None where values are random)
FACTORIES = {
    "zeros": (lambda d: torch.zeros(2, 3, device=d), lambda: torch.zeros(2, 3)),
    "ones": (lambda d: torch.ones(2, 3, device=d), lambda: torch.ones(2, 3)),
    "full": (lambda d: torch.full((2,), 7, device=d), lambda: torch.full((2,), 7)),
    "full size given as a list": (lambda d: torch.full([2], 1.5, device=d), lambda: torch.full([2], 1.5)),
    "empty": (lambda d: torch.empty(2, 3, device=d), None),
    "empty_strided": (lambda d: torch.empty_strided((2, 3), (1, 2), device=d), None),
    "empty channels_last": (
        lambda d: torch.empty(1, 2, 3, 4, device=d, memory_format=torch.channels_last),
        None,
    ),
    "arange": (lambda d: torch.arange(5, device=d), lambda: torch.arange(5)),
    "rand": (lambda d: torch.rand(3, device=d), None),
    "randn": (lambda d: torch.randn(3, device=d), None),
    "randint": (lambda d: torch.randint(0, 9, (3,), device=d), None),
    "randperm": (lambda d: torch.randperm(7, device=d).sort().values, lambda: torch.arange(7)),
    "normal": (lambda d: torch.normal(0.0, 1.0, (3,), device=d), None),
    "linspace": (lambda d: torch.linspace(0, 1, 5, device=d), lambda: torch.linspace(0, 1, 5)),
    "logspace": (lambda d: torch.logspace(0, 1, 5, device=d), lambda: torch.logspace(0, 1, 5)),
    "eye": (lambda d: torch.eye(3, device=d), lambda: torch.eye(3)),
    "tensor": (lambda d: torch.tensor([1, 2], device=d), lambda: torch.tensor([1, 2])),
    "tensor of requires_grad": (lambda d: torch.tensor([1.0], device=d, requires_grad=True), lambda: torch.ones(1)),
    "as_tensor of a list": (lambda d: torch.as_tensor([1.0, 2.0], device=d), lambda: torch.tensor([1.0, 2.0])),
    "as_tensor of an array": (lambda d: torch.as_tensor(np.ones(3), device=d), lambda: torch.ones(3).double()),
    "asarray": (lambda d: torch.asarray([1.0], device=d), lambda: torch.ones(1)),
    "zeros_like": (lambda d: torch.zeros_like(x(), device=d), lambda: torch.zeros(2, 3)),
    "ones_like": (lambda d: torch.ones_like(x(), device=d), lambda: torch.ones(2, 3)),
    "full_like": (lambda d: torch.full_like(x(), 3.0, device=d), lambda: torch.full((2, 3), 3.0)),
    "rand_like": (lambda d: torch.rand_like(x(), device=d), None),
    "empty_like": (lambda d: torch.empty_like(x(), device=d), None),
    "new_zeros": (lambda d: x().new_zeros(2, device=d), lambda: torch.zeros(2)),
    "new_ones": (lambda d: x().new_ones(2, device=d), lambda: torch.ones(2)),
    "new_full": (lambda d: x().new_full((2,), 5.0, device=d), lambda: torch.full((2,), 5.0)),
    "new_tensor": (lambda d: x().new_tensor([1.0], device=d), lambda: torch.ones(1)),
    "new_empty": (lambda d: x().new_empty(2, device=d), None),
    "scalar_tensor": (lambda d: torch.scalar_tensor(3.0, device=d), lambda: torch.tensor(3.0)),
    "fftfreq": (lambda d: torch.fft.fftfreq(4, device=d), lambda: torch.fft.fftfreq(4)),
    "rfftfreq": (lambda d: torch.fft.rfftfreq(4, device=d), lambda: torch.fft.rfftfreq(4)),
    "tril_indices": (lambda d: torch.tril_indices(3, 3, device=d), lambda: torch.tril_indices(3, 3)),
    "triu_indices": (lambda d: torch.triu_indices(3, 3, device=d), lambda: torch.triu_indices(3, 3)),
    "hann_window": (lambda d: torch.hann_window(5, device=d), lambda: torch.hann_window(5)),
    "complex": (lambda d: torch.zeros(2, dtype=torch.complex64, device=d), lambda: torch.zeros(2).to(torch.complex64)),
    "to(str)": (lambda d: x().to(d), x),
    "to(device=)": (lambda d: x().to(device=d), x),
    "to(device, dtype)": (lambda d: x().to(d, torch.float16), lambda: x().half()),
    "to(non_blocking)": (lambda d: x().to(d, non_blocking=True), x),
    "to of pinned memory": (lambda d: x().pin_memory().to(d, non_blocking=True), x),
    "cuda(device)": (lambda d: x().cuda(d), x),
    "cuda(device=)": (lambda d: x().cuda(device=d, non_blocking=True), x),
    "from npu": (lambda d: n().to(d), x),
    "copy from npu": (lambda d: n().to(d, copy=True), x),
    "Parameter": (lambda d: nn.Parameter(x().to(d)).detach(), x),
    "Linear(device=)": (lambda d: nn.Linear(3, 2, device=d).weight.detach(), None),
    "Module.to": (lambda d: nn.Linear(3, 2).to(d).weight.detach(), None),
    "Module.cuda": (lambda d: nn.Linear(3, 2).cuda(d).weight.detach(), None),
    "Module.to_empty": (lambda d: nn.Linear(3, 2, device="meta").to_empty(device=d).weight.detach(), None),
    "UntypedStorage": (lambda d: torch.tensor([], device=d).set_(torch.UntypedStorage(8, device=d)), None),
    "Generator": (lambda d: torch.rand(3, device=d, generator=torch.Generator(d).manual_seed(1)), None),
}


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize(
    "device, index",
    [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), (CUDA, 0), (CUDA1, 1)],
    ids=["cuda", "cuda:0", "cuda:1", "device(cuda)", "device(cuda,1)"],
)
def test_a_cuda_device_is_the_npu_of_that_index(name: str, device, index: int) -> None:
    make, wanted = FACTORIES[name]
    result = make(device)
    assert result.device == torch.device("npu", index)
    if wanted is not None:
        torch.testing.assert_close(result.cpu().detach(), wanted())


@pytest.mark.parametrize("name", ["zeros", "tensor", "to(str)", "arange", "Module.to"])
def test_an_int_device_is_the_npu(name: str) -> None:
    assert FACTORIES[name][0](1).device == torch.device("npu", 1)


@pytest.mark.parametrize("name", ["zeros", "tensor", "to(str)", "cuda(device)"])
def test_cuda_without_an_index_is_the_current_device(name: str) -> None:
    torch.cuda.set_device(1)
    assert FACTORIES[name][0]("cuda").device == torch.device("npu", 1)


@pytest.mark.parametrize(
    "call, index",
    [
        (lambda t: t.cuda(), 0),
        (lambda t: t.cuda(None), 0),
        (lambda t: t.cuda(1), 1),
        (lambda t: t.cuda(device=1, non_blocking=True), 1),
        (lambda t: t.cuda("npu:1"), 1),
        (lambda t: t.cuda(torch.device("npu", 1)), 1),
        (lambda t: t.to(1), 1),
    ],
)
def test_tensor_cuda(call, index: int) -> None:
    result = call(x())
    assert result.device == torch.device("npu", index)
    assert torch.equal(result.cpu(), x())


@pytest.mark.parametrize("index", [-1, 128, 9999])
def test_tensor_cuda_of_a_wrong_index_is_an_error(index: int) -> None:
    with pytest.raises(RuntimeError):
        x().cuda(index)


def test_a_device_that_does_not_exist_is_an_error() -> None:
    with pytest.raises((RuntimeError, torch.AcceleratorError)):
        torch.zeros(1, device=f"cuda:{torch.npu.device_count()}")


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.cuda(),
        lambda t: t.cuda(0),
        lambda t: t.to("cuda"),
        lambda t: t.to("cuda:0"),
        lambda t: t.to(CUDA),
        lambda t: t.to("cuda", torch.float32),
        lambda t: t.to(device="cuda", non_blocking=True),
        lambda t: t.to(t),
    ],
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_tensor_that_is_there_is_not_copied(call, mode) -> None:
    with mode():
        tensor = n()
        assert call(tensor) is tensor


def test_a_module_that_is_there_keeps_its_parameters() -> None:
    module = nn.Linear(3, 2).npu()
    weight = module.weight
    module.cuda()
    module.to("cuda:0")
    assert module.weight is weight


def test_an_optimizer_made_before_cuda_trains_the_model() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.cuda()
    before = model.weight.detach().clone()
    model(n()).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight.detach(), before)


def test_copies_between_devices_and_back() -> None:
    for tensor in (n().to("cuda:1"), n().cuda(1), n().to("cuda:1").to("cuda"), n().to("cuda:1").cpu()):
        assert torch.equal(tensor.cpu(), x())


def test_with_torch_device() -> None:
    with torch.device("cuda:1"):
        assert torch.zeros(2).device == torch.device("npu", 1)
        assert nn.Linear(2, 2).weight.device == torch.device("npu", 1)
    assert torch.zeros(2).device == torch.device("cpu")


def test_set_default_device() -> None:
    torch.set_default_device("cuda:1")
    try:
        assert torch.zeros(2).device == torch.device("npu", 1)
        assert torch.get_default_device() == torch.device("cuda", 1)
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("name", ["torch.cuda.FloatTensor", "torch.cuda.HalfTensor"])
@pytest.mark.parametrize("as_class", [False, True])
def test_set_default_tensor_type(name: str, as_class: bool) -> None:
    kind = getattr(torch.cuda, name.rpartition(".")[2])
    torch.set_default_tensor_type(kind if as_class else name)
    try:
        assert torch.zeros(2).device == torch.device("npu", 0)
        assert torch.zeros(2).dtype is kind.dtype
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert (torch.zeros(2).device, torch.zeros(2).dtype) == (torch.device("cpu"), torch.float32)


def test_what_an_npu_tensor_says_of_itself() -> None:
    tensor, parameter = n(), nn.Parameter(n())
    assert tensor.is_cuda and parameter.is_cuda and not x().is_cuda
    assert tensor.type() == "torch.npu.FloatTensor"
    assert tensor.device.type == "npu"
    assert tensor.get_device() == 0
    assert "npu:0" in repr(tensor)
    assert not tensor.untyped_storage().is_cuda  # PyTorch shares storages between processes by it


@pytest.mark.parametrize(
    "name", ["Byte", "Char", "Short", "Int", "Long", "Half", "Float", "BFloat16", "Bool", "Double"]
)
def test_old_tensor_types(name: str) -> None:
    kind = getattr(torch.cuda, f"{name}Tensor")
    assert kind(2, 3).shape == kind(torch.Size([2, 3])).shape == (2, 3)
    assert kind([1, 0]).tolist() == [1, 0]
    assert kind().numel() == 0
    made = x().type(kind)
    assert made.device == torch.device("npu", 0) and made.dtype is kind.dtype
    assert isinstance(made, kind)
    assert not isinstance(made.cpu(), kind)
    assert torch.equal(made, x().type(f"torch.cuda.{name}Tensor"))


def test_double_stays_double() -> None:
    assert torch.cuda.DoubleTensor([1.0]).dtype is torch.float64
    assert x().double().cuda().dtype is torch.float64


def test_autograd_across_devices() -> None:
    leaf = x().requires_grad_()
    there = leaf.to("cuda")
    other = (there * 2).to("cuda:1")
    (other.cuda(0) * there).cpu().sum().backward()
    torch.testing.assert_close(leaf.grad, 4 * x())


def test_deepcopy_and_pickle() -> None:
    tensor = n()
    assert torch.equal(copy.deepcopy(tensor).cpu(), x())
    assert copy.deepcopy(tensor).device == tensor.device
    assert pickle.loads(pickle.dumps(CUDA1)) == CUDA1


def test_paths_and_other_strings_with_cuda_in_them_stay(tmp_path) -> None:
    path = tmp_path / "cuda:0" / "cuda"
    path.parent.mkdir()
    torch.save(x(), path)
    assert torch.equal(torch.load(str(path)), x())
    with pytest.raises(RuntimeError, match="cuda0|cudax|Expected one of"):
        torch.zeros(1, device="cudax")


def test_data_loader_pins_for_cuda() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for options in ({"pin_memory": True}, {"pin_memory": True, "pin_memory_device": "cuda"}):
        batches = [batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, **options)]
        assert all(batch.is_pinned() for batch in batches)
        assert torch.equal(torch.cat([b.cuda(non_blocking=True) for b in batches]).cpu(), torch.arange(8.0))


def test_pin_memory_for_cuda() -> None:
    assert x().pin_memory("cuda").is_pinned("cuda")
    assert not x().is_pinned("cuda")


def test_data_parallel_equals_one_device() -> None:
    torch.manual_seed(0)
    module, batch = nn.Linear(3, 4), torch.randn(5, 3)
    wanted = module(batch)
    wanted.sum().backward()
    gradient = module.weight.grad.clone()
    module.zero_grad()
    parallel = nn.DataParallel(module, device_ids=[0, 1]).cuda()
    result = parallel(batch.cuda())
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), wanted)
    torch.testing.assert_close(module.weight.grad.cpu(), gradient)


def test_nccl_version_and_raw_allocation_and_sleep() -> None:
    assert torch.cuda.nccl.version() >= (2, 10)
    before = torch.cuda.memory_allocated()
    for stream in (None, torch.cuda.Stream()):
        pointer = torch.cuda.caching_allocator_alloc(4096, stream=stream)
        assert pointer and torch.cuda.memory_allocated() >= before + 4096
        torch.cuda.caching_allocator_delete(pointer)
    assert torch.cuda.memory_allocated() == before
    torch.cuda._sleep(1)
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    torch.cuda._sleep(30_000_000)
    ended.record()
    ended.synchronize()
    assert began.elapsed_time(ended) > 1


@pytest.mark.parametrize("device", ["cuda:1", torch.device("cuda", 1), "npu:1", 1])
def test_functions_of_the_accelerator(device: torch.device | str | int) -> None:
    torch.accelerator.synchronize(device)
    assert torch.accelerator.current_stream(device).device == torch.device("npu", 1)
    assert torch.accelerator.memory_allocated(device) == torch.npu.memory_allocated(1)
    try:
        torch.accelerator.set_device_index(device)
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.accelerator.set_device_index(0)
