"""What a program sees of Tensor.tolist, printed; the same with ANYCEND_CHECK=race as without. Who uses
it: test_race.py."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

import torch_npu  # noqa: F401


class Seen(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("mode", func.__name__, func is torch.Tensor.tolist, [t.__name__ for t in types])
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("subclass", func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Deaf(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


if __name__ == "__main__":
    h = torch.arange(4.0).reshape(2, 2)
    with Seen():
        print(h.tolist())
    print(h.as_subclass(Own).tolist(), h.as_subclass(Deaf).tolist())
    print(torch.nn.Parameter(h).tolist(), torch.tensor(3).tolist(), torch.empty(0).tolist(), h.to_sparse().layout)
    method = torch.Tensor.tolist
    print(type(method), repr(method), method.__name__, method.__qualname__, method.__doc__ is None)
    for bad in (lambda: method(), lambda: method(3), lambda: h.tolist(1), lambda: h.to_sparse().tolist()):
        try:
            print(bad())
        except Exception as error:
            print(type(error).__name__, error)
    print(torch.compile(lambda t: (t + 1).tolist(), backend="eager")(h))
