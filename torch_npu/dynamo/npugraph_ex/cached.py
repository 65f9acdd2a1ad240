"""A method whose compilation is kept on disk: it runs what its file says, or is traced and written.

A process that finds a file runs it without Dynamo. One that finds none, or one that does not fit, compiles with
torch.compile and writes it. Made by inference.cache_compile. What it is not: the file (cache_file.py) or what is in it
(program.py)."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import platform
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_npu.dynamo.npugraph_ex import cache_file
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable
from torch_npu.dynamo.npugraph_ex.options import Options
from torch_npu.dynamo.npugraph_ex.places import Scope
from torch_npu.dynamo.npugraph_ex.program import Program

NAME = "torch.npu.npugraph_ex.inference.cache_compile"


def described(value: Any) -> Any:
    """An option's value as it is compared: a function by its name."""
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else value


def made_by(function: Any, dynamic: bool | None, options: Options, decompositions: Any) -> dict[str, Any]:
    """What a file is compared with first, by the words of the message."""
    import torch_npu

    settings = {field.name: described(getattr(options, field.name)) for field in dataclasses.fields(options)}
    del settings["use_graph_pool"]  # a number of this process
    owner = type(function.__self__)
    return {
        "torch": torch.__version__,
        "torch_npu": torch_npu.__version__,
        "CANN": str(torch.version.cann),
        "Python": platform.python_version(),
        "chip": torch.npu.get_device_name(),
        "function": f"{owner.__module__}.{owner.__qualname__}.{function.__name__}",
        "dynamic": dynamic,
        "options": settings,
        "decompositions": sorted(f"{op}: {described(f)}" for op, f in (decompositions or {}).items()),
    }


def kind(module: torch.nn.Module, told: dict[str, Any]) -> str:
    """The folder of a model: its class, and what tells models of one class apart: submodules, the shapes of parameters
    and buffers, and the settings."""
    parts = [[name, type(part).__qualname__] for name, part in module.named_modules()]
    for tensors in (module.named_parameters(), module.named_buffers()):
        parts += [[name, list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors]
    settings = [told[name] for name in ("function", "dynamic", "options", "decompositions")]
    checksum = hashlib.sha256(json.dumps([parts, settings]).encode()).hexdigest()[:32]
    return f"{type(module).__name__}_{'dynamic' if told['dynamic'] else 'static'}_aclgraphcache_{checksum}"


class Cached:
    """Callable by several threads: the first call is one at a time, and so are checks and replays."""

    def __init__(
        self, function: Any, dynamic: bool | None, options: Options, decompositions: Any, folder: str, ranks: str
    ) -> None:
        """`folder`/MODEL/`ranks`/NAME has the file. MODEL is known at the first call, when the module is complete."""
        self._made = (function, dynamic, options, decompositions, folder, ranks)
        self.__name__, self.__wrapped__, self.cache_path = function.__name__, function, ""
        self._function, self._dynamic, self._options = function, dynamic, options
        self._decompositions, self._name = decompositions, f"{NAME}({function.__name__})"
        self._signature = inspect.signature(function.__func__)
        parameters = self._signature.parameters.values()
        self._own = next(iter(self._signature.parameters))
        plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._names = tuple(self._signature.parameters)[1:] if plain else None
        self._lock = threading.RLock()
        self._begun = self._said = False
        self._program: Program | None = None
        self._fit: Program | None = None  # what was written: where arguments are
        self._compiled: Callable[..., Any] | None = None

    def __reduce__(self) -> Any:
        """A copy of the module has a copy of its own, which reads the same file."""
        return Cached, self._made

    def _scope(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Scope:
        function = self._function
        if not kwargs and self._names is not None and len(args) == len(self._names):
            variables = dict(zip(self._names, args, strict=True))
            variables[self._own] = function.__self__
        else:
            bound = self._signature.bind(function.__self__, *args, **kwargs)
            bound.apply_defaults()
            variables = bound.arguments
        return {"L": variables, "G": function.__func__.__globals__}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            gradients = torch.is_grad_enabled()
            with torch.no_grad():
                scope = self._scope(args, kwargs)
                if not self._begun:
                    result = self._begin(scope, args, kwargs, gradients)
                    self._begun = True
                    return result
                if self._program is not None:
                    try:
                        given = self._program.arguments(scope)
                    except Unusable as error:
                        self._say(f"this call is compiled anew: {error}")
                    else:
                        if gradients:
                            self._program.check_gradients(scope)
                        return self._program.run(given, scope)
            if gradients:
                self._check_gradients(scope)
        with torch.no_grad():
            return self._traced()(*args, **kwargs)

    def _check_gradients(self, scope: Scope) -> None:
        """Of a call that torch.compile answers."""
        if self._fit is not None:
            self._fit.check_gradients(scope)

    def _say(self, what: str) -> None:
        if not self._said:
            self._said = True
            warnings.warn(f"{self._name}: {what}", stacklevel=4)

    def _begin(self, scope: Scope, args: Any, kwargs: Any, gradients: bool) -> Any:
        self._told = made_by(self._function, self._dynamic, self._options, self._decompositions)
        folder, ranks = self._made[4:]
        model = kind(self._function.__self__, self._told)
        self.cache_path = os.path.join(folder, model, ranks, self.__name__, cache_file.NAME)
        try:
            program = self._read(scope)
            given = program.arguments(scope)
        except (FileNotFoundError, NotADirectoryError):
            pass  # _write says why there can be none
        except Unusable as error:
            self._say(f"{self.cache_path} is compiled anew: {error}")
        else:
            if gradients:
                program.check_gradients(scope)
            self._program = program
            return program.run(given, scope)
        return self._write(scope, args, kwargs, gradients)

    def _read(self, scope: Scope) -> Program:
        content = cache_file.read(self.cache_path)
        made = content.get("made_by")
        if not isinstance(made, dict) or not isinstance(files := content.get("files"), dict):
            raise Unusable("it does not say what it was made by")
        for what, now in self._told.items():
            if made.get(what) != now:
                raise Unusable(f"it was made for {what} {made.get(what)}, this is {now}")
        for name, was in files.items():
            if not isinstance(name, str) or cache_file.digest(name) != was:
                raise Unusable(f"the source of {name} was another")
        return Program(content, self._own, scope, self._options, self._name)

    def _write(self, scope: Scope, args: Any, kwargs: Any, gradients: bool) -> Any:
        from torch._dynamo.convert_frame import register_bytecode_hook

        from torch_npu.dynamo.npugraph_ex.tracing import Tracing

        tracing = Tracing(self._function, self._options, self._decompositions, scope)
        self._compiled = None
        self._compiled = self._traced(tracing)
        hook = register_bytecode_hook(tracing.effects)
        try:
            result = self._compiled(*args, **kwargs)
        finally:
            hook.remove()
        try:
            text = tracing.text(result)
            self._fit = Program(text, self._own, scope, self._options, self._name)
            if gradients:
                self._fit.check_gradients(scope)
            text["made_by"] = self._told
            cache_file.write(self.cache_path, text)
        except Unusable as error:
            self._say(f"this function is compiled in each process: {error}")
        except OSError as error:
            self._say(f"{self.cache_path} cannot be written, so each process compiles anew (cache_dir): {error}")
        finally:
            tracing.forget()
        return result

    def _traced(self, tracing: Any = None) -> Callable[..., Any]:
        if self._compiled is None:
            from torch._dynamo import config

            from torch_npu.dynamo.npugraph_ex.tracing import Tracing

            tracing = tracing or Tracing(self._function, self._options, self._decompositions, None)
            # A number of Python's is one of the graph's, and not a tensor on the CPU.
            compiled = torch.compile(self._function, backend=tracing.backend, fullgraph=True, dynamic=self._dynamic)
            self._compiled = config.patch(specialize_float=True)(compiled)
        return self._compiled
