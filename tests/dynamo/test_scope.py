"""torch.npu.npugraph_ex.scope.limit_core_num: a part of a function uses fewer cores, compiled or not."""

from __future__ import annotations

import pytest
import torch

npu = torch.npu
BACKENDS = ("npugraphs", "npugraph_ex")
_library = torch.library.Library("core_limits", "FRAGMENT")
_library.define("seen(Tensor x) -> Tensor")


def limit() -> dict[str, int]:
    return npu.get_stream_limit(npu.current_stream())


def limits_of(cube: int, vector: int) -> dict[str, int]:
    return {"cube_core_num": cube, "vector_core_num": vector}


class Seen:
    """The limits under which its operator was put on a stream, or captured."""

    def __init__(self) -> None:
        self.limits: list[dict[str, int]] = []
        self.refuses = False

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.refuses:
            raise RuntimeError("refused")
        self.limits.append(limit())
        return x + 1


seen = Seen()
_library.impl("seen", lambda x: seen(x), "PrivateUse1")
torch.library.register_fake("core_limits::seen", torch.empty_like, lib=_library)


def step(x):
    look = torch.ops.core_limits.seen
    x = look(x)
    with npu.npugraph_ex.scope.limit_core_num(2, 4):
        x = look(x)
        with npu.npugraph_ex.scope.limit_core_num(3, -1):
            x = look(x) * 2
        x = look(x)
    return look(x)


@pytest.fixture(autouse=True)
def chip():
    seen.limits, seen.refuses = [], False
    found = limit()
    yield found
    assert limit() == found


def wanted(chip):
    return [chip, limits_of(2, 4), limits_of(3, 4), limits_of(2, 4), chip]


def test_the_stream_has_the_limit_inside(chip):
    assert step(torch.ones(2, device="npu")).tolist() == [10.0, 10.0]
    assert seen.limits == wanted(chip)


def test_of_another_stream_and_behind_an_error(chip):
    other = npu.Stream()
    npu.set_stream_limit(other, 5, 6)
    with pytest.raises(KeyError), npu.npugraph_ex.scope.limit_core_num(2, 4, other):
        assert (npu.get_stream_limit(other), limit()) == (limits_of(2, 4), chip)
        raise KeyError
    assert npu.get_stream_limit(other) == limits_of(5, 6)
    npu.reset_stream_limit(other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_compiled_function_when_it_runs_and_when_it_is_captured(backend, chip):
    function = torch.compile(step, backend=backend, fullgraph=True)
    for calls in (1, 2, 2):  # the third is a replay
        assert function(torch.ones(2, device="npu")).tolist() == [10.0, 10.0]
        assert seen.limits == wanted(chip) * calls


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_limit_ends_behind_an_operator_that_is_refused(backend, chip):
    function = torch.compile(step, backend=backend, fullgraph=True)
    seen.refuses = True
    with pytest.raises(RuntimeError, match="refused"):
        function(torch.ones(2, device="npu"))
    assert limit() == chip


@pytest.mark.parametrize("backend", ["npugraphs", "npugraph_ex"])
def test_of_another_stream_in_a_compiled_function(backend, chip):
    other = npu.Stream()

    def function(x):
        look = torch.ops.core_limits.seen
        with npu.npugraph_ex.scope.limit_core_num(2, 4, other):
            x = look(x)
            with npu.stream(other):
                x = look(x)
        with npu.stream(other):
            return look(x)

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for calls in (1, 2):
        compiled(torch.ones(2, device="npu"))
        assert seen.limits == [chip, limits_of(2, 4), chip] * calls
    assert npu.get_stream_limit(other) == chip


class Model(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.cached = npu.npugraph_ex.inference.cache_compile(self.step, cache_dir=str(folder))

    def step(self, x):
        with npu.npugraph_ex.scope.limit_core_num(2, 4):
            return torch.ops.core_limits.seen(x)


def test_in_a_function_from_a_file(tmp_path):
    Model(tmp_path).cached(torch.ones(2, device="npu"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    assert Model(tmp_path).cached(torch.ones(2, device="npu")).tolist() == [2.0, 2.0]
    assert not torch._dynamo.utils.counters["stats"], "it was read from the file"
    assert seen.limits == [limits_of(2, 4)] * 2


def test_what_the_chip_has_not_is_refused():
    with pytest.raises(RuntimeError, match="cube_num is 1000"), npu.npugraph_ex.scope.limit_core_num(1000, 4):
        pass


def test_inductor_refuses_it_by_name():
    with pytest.raises(Exception, match="limit_core_num: Inductor reorders"):
        torch.compile(step, fullgraph=True)(torch.ones(2, device="npu"))
