"""A compiled function without its Python: a graph, where its arguments are found, what must hold for them, and what
is returned. Made from what was traced or from a file, it runs without Dynamo.

Who uses it: cached.py. What it is not: the tracing (tracing.py), or the file (cache_file.py)."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import torch
from torch.utils import _device

from torch_npu.dynamo import lengths
from torch_npu.dynamo.npugraph_ex import graph_text, places
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable
from torch_npu.dynamo.npugraph_ex.facts import Fact, Place, at_each_call
from torch_npu.dynamo.npugraph_ex.options import Options
from torch_npu.dynamo.npugraph_ex.places import Scope
from torch_npu.dynamo.npugraph_ex.scope import restoring

# What looking up or computing raises where nothing is found: the second, for texts that tracing.py does not write.
_ABSENT = (LookupError, AttributeError, TypeError)
_WRONG = (*_ABSENT, ValueError, ArithmeticError, RuntimeError)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def state() -> list[Any]:
    """What of the process decides which operators a function calls, besides its arguments."""
    return [
        str(torch.get_default_dtype()),
        torch.is_autocast_enabled("npu") and str(torch.get_autocast_dtype("npu")),
        torch.are_deterministic_algorithms_enabled(),
        str(_device.CURRENT_DEVICE),
        torch._C._len_torch_function_stack(),
    ]


class _Tensor:
    """What is checked of a tensor: its type and its size, which may have names for numbers in it."""

    def __init__(self, text: dict[str, Any], place: Place) -> None:
        """`stride` of `text`: None for a tensor that must be contiguous."""
        self.place = place
        self._dtype, self._device = (graph_text.value_of(text[name], {}) for name in ("dtype", "device"))
        self._said = f"{text['dtype']['dtype']}[{', '.join(text['size'])}] on {text['device']['device']}"
        given = [places.number(part) for part in (*text["size"], *(text["stride"] or ()))]
        self._dims = len(text["size"])
        self._contiguous = text["stride"] is None
        if not self._contiguous and len(text["stride"]) != self._dims:
            raise ValueError("a tensor has other strides than sizes")
        self._computed = any(callable(part) for part in given)
        self._layout: Any = given if self._computed else (tuple(given[: self._dims]), tuple(given[self._dims :]))

    def check(self, value: Any, numbers: places.Numbers) -> None:
        if not _is_plain(value) or value.dtype is not self._dtype or value.device != self._device:
            self._refuse(value)
        wanted = self._layout
        if self._computed:
            found = [part(numbers) if callable(part) else part for part in wanted]
            wanted = tuple(found[: self._dims]), tuple(found[self._dims :])
        same = value.is_contiguous() if self._contiguous else _same_strides(value, wanted[1])
        if value.shape != wanted[0] or not same:
            self._refuse(value)

    def _refuse(self, value: Any) -> None:
        found = f"a {type(value).__name__}"
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            found = f"{dtype}{list(value.shape)} on {value.device}, of strides {list(value.stride())}"
        raise Unusable(f"{self.place.text} is {found}; the graph was made for {self._said}")


def _is_plain(value: Any) -> bool:
    """A tensor, or of a subclass that only adds to it."""
    if type(value) in _PLAIN:
        return True
    return isinstance(value, torch.Tensor) and type(value).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _same_strides(value: torch.Tensor, wanted: tuple[int, ...]) -> bool:
    return value.stride() == wanted or all(
        size == 1 or ours == theirs for size, ours, theirs in zip(value.shape, value.stride(), wanted, strict=True)
    )


class Program:
    """What the method returns for the variables in a scope, without gradients: arguments(scope), then run(). Replays
    follow the rules of Replayed; the rest belongs to one thread at a time."""

    def __init__(self, text: dict[str, Any], own: str, scope: Scope, options: Options, name: str) -> None:
        """Unusable where `text` is not what tracing.py makes, or where `scope` has no such places."""
        place = functools.partial(Place, own=own, scope=scope)
        try:
            self._state = text["state"]
            facts = [Fact(kind, place(where), answer, place) for kind, where, answer in text["facts"]]
            self._facts = at_each_call(facts)
            self._once: list[Fact] = [fact for fact in facts if not fact.each_call]
            self._frozen = options.frozen_parameter
            self._kept: dict[int, torch.Tensor] = {}  # the module's tensors, by argument, if they are asked for once
            self._symbols = [(symbol, place(where), low, high) for symbol, where, low, high in text["symbols"]]
            self._conditions = [(condition, places.number(condition)) for condition in text["conditions"]]
            self._inputs = [
                places.number(row["number"]) if "number" in row else _Tensor(row, place(row["place"]))
                for row in text["inputs"]
            ]
            self._numbers_at = [(place(where), places.number(number)) for where, number in text["numbers"]]
            self._looked_at = [_Tensor(row, place(row["place"])) for row in text["tensors"]]
            interpreter = graph_text.read(text["graph"])
            self._result = text["result"]
            self._results(self._result, graph_text.outputs(interpreter), {row["place"] for row in text["inputs"]})
            replay = text["replay"]
            held = sum(node.op == "placeholder" for node in interpreter.graph.nodes)
            lasting, self._mutated = replay["lasting"], replay["mutated"]
            if held != len(self._inputs) or not {*lasting, *self._mutated} <= set(range(held)):
                raise ValueError(f"the graph has {held} arguments")
            if not all(isinstance(self._inputs[i], _Tensor) for i in self._mutated):
                raise ValueError("it changes a number")
            changed = lengths.of_graph(interpreter.graph, replay["lengths"])
            if changed is not None and any(isinstance(self._inputs[i], _Tensor) for i in changed.free):
                raise ValueError("a length is a tensor")
            device, why_not = replay["device"], replay["why_not"]
            if why_not is None and (type(device) is not int or not 0 <= device < torch.npu.device_count()):
                raise ValueError(f"there is no npu:{device}")
            from torch_npu.dynamo.npugraph_ex.replaying import replaying

            self._run: Any = None  # what cannot be captured is said when the function runs, not when a file is read
            self._replaying = functools.partial(
                replaying, restoring(interpreter.graph, interpreter.boxed_run), options,
                device=device, lasting=lasting, mutated=self._mutated, why_not=why_not, name=name,
                lengths=changed,
            )  # fmt: skip
        except _WRONG as error:
            raise Unusable(f"it does not fit this module ({type(error).__name__}: {error})") from error

    def arguments(self, scope: Scope) -> list[Any]:
        """The graph's arguments. Unusable, with the reason, where these variables are not what it was made for."""
        if (now := state()) != self._state:
            raise Unusable(f"default type, autocast and determinism are {now}; the graph was made for {self._state}")
        try:
            for fact in (*self._once, *self._facts):
                fact.check(scope)
            numbers = self._numbers(scope)
            given = [self._argument(i, scope, numbers) for i in range(len(self._inputs))]
            tensors = [value for value in given if isinstance(value, torch.Tensor)]
            for wanted in self._looked_at:
                tensors.append(wanted.place.find(scope))
                wanted.check(tensors[-1], numbers)
        except (*_ABSENT, ArithmeticError, RecursionError) as error:
            raise Unusable(f"an argument is not there ({type(error).__name__}: {error})") from error
        if len({id(tensor) for tensor in tensors}) != len(tensors):
            raise Unusable("one tensor is two of its arguments")
        self._check_memory(given)
        self._once = []
        return given

    def _argument(self, index: int, scope: Scope, numbers: places.Numbers) -> Any:
        wanted = self._inputs[index]
        if not isinstance(wanted, _Tensor):
            return wanted(numbers) if callable(wanted) else wanted
        if index in self._kept:
            return self._kept[index]
        value = wanted.place.find(scope)
        wanted.check(value, numbers)
        if self._frozen and wanted.place.own:
            self._kept[index] = value
        return value

    def _numbers(self, scope: Scope) -> places.Numbers:
        numbers: places.Numbers = {}
        for symbol, place, low, high in self._symbols:
            value = place.find(scope)
            if type(value) is not int or (low is not None and value < low) or (high is not None and value > high):
                raise Unusable(f"{place.text} is {value!r}; the graph was made for {low} to {high}")
            numbers[symbol] = value
        for condition, holds in self._conditions:
            if not (holds(numbers) if callable(holds) else holds):
                raise Unusable(f"the graph was made for {condition}, where {numbers}")
        for place, number in self._numbers_at:
            wanted, value = number(numbers) if callable(number) else number, place.find(scope)
            if type(value) is not int or value != wanted:
                raise Unusable(f"{place.text} is {value!r}; the graph was made for {wanted}")
        return numbers

    def _check_memory(self, given: list[Any]) -> None:
        """What is changed in place must be nobody else's: the graph does not see changes through other names."""
        if self._mutated:
            storages = Counter(value.untyped_storage().data_ptr() for value in given if isinstance(value, torch.Tensor))
            for i in self._mutated:
                if storages[given[i].untyped_storage().data_ptr()] > 1 and given[i].numel():
                    raise Unusable("an argument that the function changes shares memory with another")

    def check_gradients(self, scope: Scope) -> None:
        """RuntimeError where a gradient is asked of an argument; parameters are only used."""
        for wanted in self._inputs:
            if isinstance(wanted, _Tensor) and not wanted.place.own:
                if wanted.place.find(scope).requires_grad:
                    raise RuntimeError(
                        f"cache_compile is for inference: {wanted.place.text} requires a gradient, which the cached "
                        "function does not compute; detach it, call it under torch.no_grad(), or use torch.compile"
                    )

    def run(self, given: list[Any], scope: Scope) -> Any:
        if self._run is None:
            self._run = self._replaying()
        outputs = self._run(given)
        return self._made(self._result, outputs, scope)

    def _results(self, tree: Any, outputs: int, inputs: set[str]) -> None:
        """ValueError or TypeError where `tree` is not what is returned."""
        kind, what = tree
        if kind in ("tuple", "list"):
            for part in what:
                self._results(part, outputs, inputs)
        elif kind == "dict":
            for key, part in what:
                hash(graph_text.value_of(key, {}))
                self._results(part, outputs, inputs)
        elif kind == "value":
            graph_text.value_of(what, {})
        elif not (kind == "place" and what in inputs) and not (
            kind == "output" and type(what) is int and 0 <= what < outputs
        ):
            raise ValueError(f"{tree!r} is nothing to return")

    def _made(self, tree: Any, outputs: Any, scope: Scope) -> Any:
        kind, what = tree
        if kind == "output":
            return outputs[what]
        if kind == "place":
            return places.find(what, scope)
        if kind == "tuple":
            return tuple(self._made(part, outputs, scope) for part in what)
        if kind == "list":
            return [self._made(part, outputs, scope) for part in what]
        if kind == "dict":
            return {graph_text.value_of(key, {}): self._made(part, outputs, scope) for key, part in what}
        return graph_text.value_of(what, {})
