"""What Dynamo and AOTAutograd find out about a function while they compile it, as data that can be kept: the text of a
Program. Refuses, with the reason, what such data cannot say.

Who uses it: cached.py, for the first call of a function that has no file. What it is not: the guards, which stay
Dynamo's in the process that traced."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import sympy
import torch
from torch._dynamo import convert_frame
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import OutputType
from torch.utils._sympy.printers import PythonPrinter

from torch_npu.dynamo.npugraph_ex import graph_text, guards, places, program
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable, digest
from torch_npu.dynamo.npugraph_ex.compiler import compile_graph
from torch_npu.dynamo.npugraph_ex.guards import place as _place
from torch_npu.dynamo.npugraph_ex.guards import plain as _plain
from torch_npu.dynamo.npugraph_ex.options import Options
from torch_npu.dynamo.npugraph_ex.places import Scope

_UNALIASED = (OutputType.non_alias, OutputType.unsafe_view_alias)
_OF_TORCH = os.path.dirname(torch.__file__) + os.sep


def digests(codes: list[CodeType]) -> dict[str, str]:
    """The modules that the code is from, without PyTorch's, by name: the SHA-256 of their files."""
    files: dict[Any, str] = {}
    for name, module in list(sys.modules.items()):  # the first of a module's names: __main__ before __mp_main__
        files.setdefault(getattr(module, "__file__", None), name)
    found: dict[str, str] = {}
    for path in {code.co_filename for code in codes}:
        if path.startswith(_OF_TORCH) or path == "<string>":  # a dataclass's own methods, which Python wrote
            continue
        if path not in files:
            raise Unusable(f"{path} is not the file of a module")
        found[files[path]] = digest(files[path])
    return found


class Tracing:
    """The back end of one torch.compile. The first graph is written down; `text` is asked for after its first call."""

    def __init__(self, function: Any, options: Options, decompositions: Any, scope: Scope | None) -> None:
        """`scope`: the variables of the first call, before it; None: nothing is written down."""
        self._function, self._options, self._scope = function, options, scope or {}
        self._decompositions = dict(decompositions or {})
        self._why_not: str | None = None
        self._traced = scope is None
        self._effects: tuple[str, ...] = ()
        self._outputs: list[Any] = []
        self._called = False
        self._state = program.state()

    def backend(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        first, self._traced = not self._traced, True
        if first:
            self._try(lambda: self._look(module))

        def forward(graph: torch.fx.GraphModule, given: list[Any]) -> Any:
            taken = (lambda *told: self._try(lambda: self._take(*told))) if first else None
            return compile_graph(graph, given, self._options, backward=False, taken=taken)

        run = aot_autograd(
            fw_compiler=forward, decompositions=self._decompositions, keep_inference_input_mutations=True
        )(module, inputs)
        if not first:
            return run

        def noted(*arguments: Any) -> Any:
            results = run(*arguments)
            if not self._called:
                self._called, self._outputs = True, list(results)
            return results

        return noted

    def _try(self, note: Callable[[], None]) -> None:
        """What cannot be kept is compiled all the same."""
        if self._why_not is None:
            try:
                note()
            except Unusable as error:
                self._why_not = str(error)

    def _look(self, module: torch.fx.GraphModule) -> None:
        context = torch._guards.TracingContext.get()
        self._shapes = context.fake_mode.shape_env
        self._codes = list(context.traced_code)
        self._facts = guards.facts(context, self._scope)
        self._tensors = guards.tensors(context, self._scope)
        self._places, self._values, self._examples = [], [], []
        for node in module.graph.find_nodes(op="placeholder"):
            self._places.append(_place(node.meta["grapharg"].source.name))
            self._values.append(places.find(self._places[-1], self._scope))
            self._examples.append(node.meta["example_value"])

    def _take(self, module: torch.fx.GraphModule, told: dict[str, Any]) -> None:
        """The graph of ATen operators, if nothing has to be done around it."""
        found = torch._guards.TracingContext.get().fw_metadata
        if len(module.graph.find_nodes(op="placeholder")) != len(self._places):
            raise Unusable("one tensor is two of its arguments, or an argument is no plain tensor")
        if found.num_mutated_inp_runtime_indices or found.tokens:
            raise Unusable("it changes the shape of an argument, or more than tensors")
        if any(info.output_type not in _UNALIASED for info in found.output_info):
            raise Unusable("it returns a view of an argument")
        try:
            self._graph = graph_text.write(module)
        except ValueError as error:
            raise Unusable(str(error)) from error
        self._told = told

    def effects(self, old: CodeType, new: CodeType) -> None:
        """A hook of Dynamo's for the code it makes."""
        if old is self._function.__func__.__code__ and not self._effects:
            self._effects = convert_frame.get_compiled_code_side_effects(new) or ()

    def forget(self) -> None:
        """Lets go of the first call's tensors."""
        self._scope, self._outputs, self._values, self._examples, self._tensors = {}, [], [], [], {}

    def text(self, result: Any) -> dict[str, Any]:
        """Of a Program that returns `result` for the first call's variables. Unusable, with the reason."""
        if self._why_not is None and not self._traced:
            self._why_not = "it has no operators"
        if self._why_not is not None:
            raise Unusable(self._why_not)
        if self._effects:
            raise Unusable(f"it changes {', '.join(self._effects)}, which is no tensor")
        self._symbols: set[Any] = set()
        inputs = [self._input(where, value) for where, value in zip(self._places, self._examples, strict=True)]
        tensors = [self._looked_at(where, value) for where, value in self._tensors.items() if where not in self._places]
        numbers = [row for symbol, at in self._shapes.var_to_sources.items() for row in self._numbers(symbol, at)]
        conditions = [
            self._number(expression)
            for guard in self._shapes.guards
            if (expression := self._shapes.replace(guard.expr)) != sympy.true
        ]
        callables = (self._options.post_grad_custom_pre_pass, self._options.post_grad_custom_post_pass)
        codes = [*self._codes, *(f.__code__ for f in (*callables, *self._decompositions.values()) if _is_written(f))]
        return {
            "files": digests(codes),
            "state": self._state,
            "facts": self._facts,
            "symbols": [self._symbol(symbol) for symbol in sorted(self._symbols, key=str)],
            "conditions": sorted(set(conditions)),
            "numbers": numbers,
            "inputs": inputs,
            "tensors": tensors,
            "graph": self._graph,
            "replay": self._told,
            "result": self._returned(result),
        }

    def _number(self, value: Any) -> str:
        expression = value.node.expr if isinstance(value, torch.SymInt) else value
        if isinstance(expression, int):
            return str(expression)
        text = PythonPrinter().doprint(expression)
        try:
            places.number(text)
        except ValueError as error:
            raise Unusable(f"{text} cannot be computed from sizes alone") from error
        self._symbols |= expression.free_symbols
        return text

    def _input(self, where: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, torch.Tensor):
            return {"place": where, "number": self._number(value)}
        return {
            "place": where, "dtype": _plain(value.dtype), "device": _plain(value.device),
            "size": [self._number(part) for part in value.size()],
            "stride": [self._number(part) for part in value.stride()],
        }  # fmt: skip

    def _numbers(self, symbol: Any, sources: list[Any]) -> list[list[str]]:
        """Where a symbol is found besides in the sizes of tensors, which are checked: numbers of Python's."""
        names = [source.name for source in sources]
        return [
            [name, self._number(self._shapes.replace(symbol))]
            for name in names
            if all(kind != "asked" for kind, _ in places.parse(_place(name)))
        ]

    def _looked_at(self, where: str, value: torch.Tensor) -> dict[str, Any]:
        """A tensor that is no argument of the graph, but whose type or size decided what is in it."""
        symbols = {at.name: symbol for symbol, among in self._shapes.var_to_sources.items() for at in among}
        found = [symbols.get(f"{where}.size()[{dim}]") for dim in range(value.dim())]
        size = [
            str(fixed) if symbol is None else self._number(self._shapes.replace(symbol))
            for fixed, symbol in zip(value.shape, found, strict=True)
        ]
        if not value.is_contiguous() and any(symbol is not None for symbol in found):
            raise Unusable(f"{where} is not contiguous, of a size that is free, and not used")
        stride = None if value.is_contiguous() else [str(part) for part in value.stride()]
        return {
            "place": where, "dtype": _plain(value.dtype), "device": _plain(value.device),
            "size": size, "stride": stride,
        }  # fmt: skip

    def _symbol(self, symbol: Any) -> list[Any]:
        sources = self._shapes.var_to_sources.get(symbol)
        if not sources:
            raise Unusable(f"a size, {symbol}, depends on values")
        within = self._shapes.var_to_range[symbol]
        bounds = [int(bound) if abs(bound) < sys.maxsize else None for bound in (within.lower, within.upper)]
        return [str(symbol), _place(sources[0].name), *bounds]

    def _returned(self, value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            for among, kind in ((self._outputs, "output"), (self._values, "place")):
                for i, other in enumerate(among):
                    if other is value:
                        return [kind, i if kind == "output" else self._places[i]]
            raise Unusable("it returns a tensor that it did not compute")
        if type(value) in (tuple, list):
            return [type(value).__name__, [self._returned(part) for part in value]]
        if type(value) is dict:
            return ["dict", [[_plain(key), self._returned(part)] for key, part in value.items()]]
        if value is None or isinstance(value, (bool, str)) or (type(value) in (int, float) and not self._symbols):
            return ["value", _plain(value)]
        raise Unusable(f"it returns a {type(value).__name__}")


def _is_written(function: Any) -> bool:
    return hasattr(function, "__code__")
