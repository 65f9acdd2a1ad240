"""TorchScript, torch.compile and torch.export with cuda in the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.older import since_2_13


@pytest.fixture(autouse=True)
def forget_compiled_code() -> Iterator[None]:
    yield
    torch.compiler.reset()


def x() -> torch.Tensor:
    return torch.arange(4.0).reshape(2, 2)


@torch.jit.script
def script_to_string(t: torch.Tensor) -> torch.Tensor:
    return t.to("cuda") + 1


@torch.jit.script
def script_to_device(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.device("cuda:1")) + 1


@torch.jit.script
def script_to_dtype(t: torch.Tensor) -> torch.Tensor:
    return t.to(device=torch.device("cuda"), dtype=torch.float16) + 1


@torch.jit.script
def script_cuda(t: torch.Tensor) -> torch.Tensor:
    return t.cuda() + 1


@torch.jit.script
def script_factory(t: torch.Tensor) -> torch.Tensor:
    return torch.ones(2, 2, device=torch.device("cuda")) + t.cuda()


@pytest.mark.parametrize(
    "function, index",
    [(script_to_string, 0), (script_to_device, 1), (script_to_dtype, 0), (script_cuda, 0), (script_factory, 0)],
)
def test_scripts(function, index: int) -> None:
    for _ in range(3):  # profiled, then optimized
        result = function(x())
        assert result.device == torch.device("npu", index)
        torch.testing.assert_close(result.cpu().float(), x() + 1)


def test_torch_jit_script_is_not_blocked() -> None:
    module = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())).cuda()
    assert isinstance(module, torch.jit.ScriptModule)
    assert module(x().cuda()).device.type == "npu"


def test_trace() -> None:
    traced = torch.jit.trace(lambda t: t.cuda() * torch.ones(2, 2, device="cuda"), x())
    assert traced(x()).device == torch.device("npu", 0)


def factories(t: torch.Tensor) -> torch.Tensor:
    return t.cuda() * torch.full((2, 2), 2.0, device="cuda") + torch.arange(2, device=torch.device("cuda:0"))


def moves(t: torch.Tensor) -> torch.Tensor:
    return t.to("cuda").to("cuda:0") * 2 + torch.arange(2).cuda(0)


def asks(t: torch.Tensor) -> torch.Tensor:
    t = t.cuda() * 2
    return t + torch.arange(2, device=t.device) if t.is_cuda and torch.cuda.is_available() else t


def current(t: torch.Tensor) -> torch.Tensor:
    return t.cuda(torch.cuda.current_device()) * 2 + torch.arange(2, device="cuda")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [factories, moves, asks, current])
@pytest.mark.parametrize("place", ["cpu", "npu"])
def test_compile_in_one_graph(function, place: str, backend: str) -> None:
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    result = compiled(x().to(place))
    assert result.device == torch.device("npu", 0)
    torch.testing.assert_close(result.cpu(), x() * 2 + torch.arange(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("enabled", [True, False])
def test_compiled_autocast(backend: str, enabled: bool) -> None:
    @torch.compile(fullgraph=True, backend=backend)
    def function(t):
        with torch.autocast("cuda", enabled=enabled):
            return t @ t, torch.is_autocast_enabled("cuda")

    result, state = function(x().cuda())
    assert result.dtype is (torch.float16 if enabled else torch.float32)
    assert state is enabled
    torch.testing.assert_close(result.cpu().float(), x() @ x())


def test_what_was_compiled_before_the_import_is_no_matter() -> None:
    from torch_npu.contrib import transfer_to_npu  # importing it here would enable it for other rooms

    def function(t):
        return t * 2, torch.is_autocast_enabled("cuda")

    transfer_to_npu.disable()
    assert torch.compile(lambda t: t + 1, backend="eager")(x()).sum() == 10
    transfer_to_npu.enable()
    with torch.autocast("cuda"):
        assert torch.compile(function, fullgraph=True, backend="eager")(x().cuda())[1]


@since_2_13("compiled code of Inductor's on an npu")
def test_the_default_backend() -> None:
    def function(t):
        return (t.cuda() + torch.ones(2, device="cuda")).softmax(-1).sum(0)

    result = torch.compile(function, fullgraph=True)(x())
    assert result.device == torch.device("npu", 0)
    torch.testing.assert_close(result.cpu(), (x() + 1).softmax(-1).sum(0))


def test_compiled_training_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    wanted = model(x()).sum()
    wanted.backward()
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    model.cuda()
    result = torch.compile(model, fullgraph=True, backend="aot_eager")(x().cuda()).sum()
    result.backward()
    torch.testing.assert_close(result.cpu(), wanted)
    torch.testing.assert_close(model[0].weight.grad.cpu(), gradient)


def test_export() -> None:
    class Module(torch.nn.Module):
        def forward(self, t):
            return t.to("cuda") * torch.ones(2, device="cuda") + 1

    program = torch.export.export(Module(), (x().cuda(),))
    assert torch.equal(program.module()(x().cuda()).cpu(), x() + 1)


def test_a_trace_leaves_gradients_after_the_end_alone() -> None:
    """A `to` that was resolved while it led to the npu had no gradient in later traces."""
    from torch_npu.contrib import transfer_to_npu  # which enables it, the first time

    class Module(torch.nn.Module):
        def forward(self, t):
            return t.to("cuda") * 2

    torch.export.export(Module(), (x().npu(),))
    transfer_to_npu.disable()
    layer = torch.nn.Linear(2, 2, device="npu")

    def loss(t: torch.Tensor) -> torch.Tensor:
        with torch.autocast("npu", dtype=torch.bfloat16):
            return torch.softmax(layer(t), -1).square().sum()

    gradients = []
    for step in (loss, torch.compile(loss, backend="aot_eager")):
        layer.zero_grad()
        step(x().npu()).backward()
        gradients.append(layer.weight.grad.clone())
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[1], gradients[0])


def test_synchronizing_in_a_compiled_function() -> None:
    def function(t: torch.Tensor) -> torch.Tensor:
        doubled = t * 2
        torch.cuda.synchronize()
        return doubled + 1

    assert torch.compile(function, backend="aot_eager")(x().cuda()).tolist() == [[1, 3], [5, 7]]


def test_cudagraphs_is_npugraphs() -> None:
    from tests.dynamo.counting import counted

    step = torch.compile(lambda t: t * 2 + 1, backend="cudagraphs")
    with counted() as counts, torch.no_grad():
        for n in range(4):
            assert step(torch.full((3,), float(n), device="cuda")).tolist() == [2.0 * n + 1] * 3
    assert counts.captures == 1 and counts.replays == 3
