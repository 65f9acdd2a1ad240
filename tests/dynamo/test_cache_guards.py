"""torch.npu.npugraph_ex.inference.cache_compile: whatever decided what was traced is asked again by who reads
the file, or the function is not kept."""

from __future__ import annotations

import enum
import functools
import warnings

import pytest
import torch

from tests.dynamo.cached_model import DEVICE, inference


class Kind(enum.Enum):
    TWICE = 2
    THRICE = 3


class Branching(torch.nn.Module):
    """Methods that look at something of which nothing is left in the graph."""

    scale = 3

    def __init__(self, function=torch.relu):
        super().__init__()
        self.function = function

    def calls_what_it_has(self, x):
        return self.function(x)

    def reads_its_class(self, x):
        return x * self.scale

    def asks_for_an_attribute(self, x):
        return x * 2 if hasattr(self, "extra") else x * 3

    def asks_for_a_key(self, x, table):
        return x * 2 if "k" in table else x * 3

    def looks_at_a_size(self, x, mask):
        return x * 2 if mask.shape[0] == 3 else x * 3

    def looks_at_a_type(self, x, mask):
        return x * 2 if mask.dtype == torch.bool else x * 3

    def looks_at_a_number(self, x, count):
        return x * 2 if count == 5 else x * 3

    def calls_what_is_given(self, x, function):
        return function(x)

    def compares_objects(self, x, y):
        return x * 2 if x is y else x * 3

    def compares_members(self, x, kind):
        return x * 2 if kind is Kind.TWICE else x * 3


def ones(size=3, dtype=torch.float32):
    return torch.ones(size, dtype=dtype, device=DEVICE)


def another(module=None, **attributes):
    module = module or Branching()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


SAME = torch.ones(3, device=DEVICE)


@pytest.mark.parametrize(
    ("method", "first", "second", "given", "said"),
    [
        ("calls_what_it_has", another(), another(Branching(torch.exp)), [(), ()], "the name of"),
        ("calls_what_it_has", Branching(lambda x: x * 2), Branching(lambda x: x * 3), [(), ()], "the name of"),
        ("reads_its_class", another(), another(scale=5), [(), ()], "own 'scale'"),
        ("asks_for_an_attribute", another(), another(extra=1), [(), ()], "has 'extra'"),
        ("asks_for_a_key", another(), another(), [({"k": 1},), ({"q": 1},)], "(KeyError: 'k')"),
        ("asks_for_a_key", another(), another(), [({"q": 1},), ({"k": 1, "q": 1},)], "contains 'k'"),
        ("looks_at_a_size", another(), another(), [(ones(3),), (ones(7),)], "is float32[7] on npu:0"),
        ("looks_at_a_type", another(), another(), [(ones(3, torch.bool),), (ones(3),)], "is float32[3] on npu:0"),
        ("looks_at_a_number", another(), another(), [(5,), (6,)], "L['count'] is 6; the graph was made for 5"),
        ("calls_what_is_given", another(), another(), [(torch.sin,), (torch.cos,)], "the name of L['function'] is"),
        ("compares_objects", another(), another(), [(SAME,), (ones(),)], "is L["),
        ("compares_objects", another(), another(), [(ones(),), (SAME,)], "one tensor is two of its arguments"),
        ("compares_members", another(), another(), [(Kind.TWICE,), (Kind.THRICE,)], "Kind.THRICE"),
    ],
)
def test_what_the_trace_depended_on_is_asked_again(tmp_path, method, first, second, given, said):
    results = []
    for module, arguments_ in zip((first, second), given, strict=True):
        torch._dynamo.reset()
        step = inference.cache_compile(getattr(module, method), cache_dir=str(tmp_path))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results.append(step(SAME, *arguments_))
        torch.testing.assert_close(results[-1], getattr(module, method)(SAME, *arguments_))
    messages = [str(w.message) for w in caught if "cache_compile" in str(w.message)]
    assert not torch.equal(*results) and len(messages) == 1 and said in messages[0], messages


def test_what_cannot_be_asked_again_is_not_kept(tmp_path):
    step = inference.cache_compile(Branching().asks_for_a_key, cache_dir=str(tmp_path))
    with pytest.warns(UserWarning, match="compiled in each process: {'k'} cannot be written down"):
        assert step(ones(), {"k"}).tolist() == [2.0] * 3
    module = Branching(functools.partial(torch.mul, other=2))
    step = inference.cache_compile(module.calls_what_it_has, cache_dir=str(tmp_path))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert step(ones()).tolist() == [2.0] * 3
    module.function = functools.partial(torch.mul, other=3)
    torch._dynamo.reset()
    again = inference.cache_compile(module.calls_what_it_has, cache_dir=str(tmp_path))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert again(ones()).tolist() == [3.0] * 3


def test_the_default_device_is_asked_again(tmp_path):
    class Made(torch.nn.Module):
        def step(self, x):
            return x.cpu() + torch.ones(3).cpu()

    for device in ("cpu", DEVICE):
        torch._dynamo.reset()
        step = inference.cache_compile(Made().step, cache_dir=str(tmp_path))
        with torch.device(device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert step(SAME).tolist() == [2.0] * 3
