"""torch.npu.npugraph_ex.inference: what was compiled is kept on disk, and other processes run it without Dynamo."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["cache_compile", "readable_cache"]

_NAME = "torch.npu.npugraph_ex.inference.cache_compile"
_FOLDER = ".torchair_cache"  # of the current directory: the vendor's name


def _rank(given: int | None, name: str) -> int | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise ValueError(f"{_NAME}: {name} is a rank, 0 or more, not {given!r}")
    return given


def cache_compile(
    func: Any,
    *,
    dynamic: bool = True,
    cache_dir: str | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """`func`, a method of a torch.nn.Module, as a function that is compiled as by backend="npugraph_ex", for inference.

    The first call of the first process traces it and writes CACHE_DIR/MODEL/FUNCTION/compiled_module (MODEL: the
    class, "dynamic" or "static", a checksum; with ranks "world2global_rank0" after it). A process that finds the file
    runs it without tracing. A file that does not fit (versions, the source, the module's or the arguments' sizes), is
    damaged, or may be written by other users is not used: the function is traced anew and the file replaced, with one
    message. docs/compiled_graphs.md says what of a file is believed.

    `dynamic`: as of torch.compile. `cache_dir`: ".torchair_cache" in the current directory if not given; "~" is the
    home. `global_rank`, `tp_rank`, `pp_rank`: of this process in a distributed job; torch.distributed's if not given.
    `options`: those of npugraph_ex; `custom_decompositions`: {operator: function}, as of
    torch._decomp.get_decompositions. Results have no gradients: RuntimeError if an argument requires one. TypeError if
    `func` is no such method, NotADirectoryError if `cache_dir` is a file; errors of torch.compile(fullgraph=True)."""
    from torch_npu.dynamo.npugraph_ex.cached import Cached
    from torch_npu.dynamo.npugraph_ex.options import Options

    module = getattr(func, "__self__", None)
    if not inspect.ismethod(func) or not isinstance(module, torch.nn.Module):
        raise TypeError(f"{_NAME}: func is a method of a torch.nn.Module, such as self.decode, not {func!r}")
    options = Options.read(kwargs.pop("options", None))
    decompositions = kwargs.pop("custom_decompositions", None)
    if kwargs:
        known = [name for name in inspect.signature(cache_compile).parameters if name != "kwargs"]
        known += ["options", "custom_decompositions"]
        raise TypeError(f"{_NAME} has no argument {min(kwargs)}; it has {', '.join(known)}")
    if not isinstance(dynamic, (bool, type(None))):
        raise TypeError(f"{_NAME}: dynamic is True, False or None, not {dynamic!r}")
    if not isinstance(cache_dir, (str, os.PathLike, type(None))):
        raise TypeError(f"{_NAME}: cache_dir is the path of a folder, not {cache_dir!r}")
    folder = os.path.abspath(os.path.expanduser(cache_dir or _FOLDER))
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(f"{_NAME}: cache_dir={folder!r} is a file, and should be a folder")
    if options.dump_tensor_data:
        raise ValueError(f"{_NAME}: dump_tensor_data is for torch.compile; what is dumped is not kept")
    ranks = {"tp": _rank(tp_rank, "tp_rank"), "pp": _rank(pp_rank, "pp_rank")}
    world, rank = 1, _rank(global_rank, "global_rank")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        rank = torch.distributed.get_rank() if rank is None else rank
    parts = [] if rank is None else [f"world{world}global_rank{rank}"]
    parts += [f"{name}_rank{number}" for name, number in ranks.items() if number is not None]
    return Cached(func, dynamic, options, decompositions, folder, os.path.join("", *parts))


def _comment(text: str) -> str:
    return "# " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _size(row: dict[str, Any]) -> str:
    return row["number"] if "number" in row else f"{row['dtype']['dtype']}[{', '.join(row['size'])}]"


def readable_cache(cache_bin: Any, print_output: bool = True, file: Any = None) -> str:
    """What is in the file `cache_bin` that cache_compile wrote, as text: what it was made by, its arguments, what must
    hold for them, the graph as Python, what is returned. Printed unless `print_output` is False; written to the path
    `file` if given. FileNotFoundError; ValueError with the reason for a file that cache_compile would not use."""
    from torch_npu.dynamo.npugraph_ex import cache_file, graph_text

    try:
        content = cache_file.read(os.fspath(cache_bin))
        said = [f"{what}: {made}" for what, made in content["made_by"].items()]
        said += [f"source: {name} {digest}" for name, digest in content["files"].items()]
        for number, row in enumerate(content["inputs"]):
            said.append(f"argument {number}: {row['place']}, {_size(row)}")
        said += [f"looked at: {row['place']}, {_size(row)}" for row in content["tensors"]]
        said += [f"{symbol} is {place}, {low} to {high}" for symbol, place, low, high in content["symbols"]]
        said += [f"if {place} is {number}" for place, number in content["numbers"]]
        said += [f"if {condition}" for condition in content["conditions"]]
        said += [f"if the {kind} of {place} is {value!r}" for kind, place, value in content["facts"]]
        lines = [_comment(line) for line in said]
        lines.append(graph_text.read(content["graph"]).graph.python_code("self").src.strip())
        lines.append(_comment(f"returned: {json.dumps(content['result'])}"))
    except cache_file.Unusable as error:
        raise ValueError(f"readable_cache: {os.fspath(cache_bin)}: {error}") from error
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"readable_cache: {os.fspath(cache_bin)} is not a compiled_module: {error}") from error
    text = "\n".join(lines) + "\n"
    if print_output:
        print(text, end="")
    if file is not None:
        with open(file, "w") as target:
            target.write(text)
    return text
