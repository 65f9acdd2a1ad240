"""Operators described in a file in the manner of op-plugin's npu_custom.yaml: their C++, or the operators themselves.

    python -m torch_npu.utils.custom_ops npu_custom.yaml --derivatives derivatives.yaml -o npu_custom.cpp

The generator is that of torch_npu's own operators (tools/codegen, installed as torch_npu/_codegen); it reads YAML, so
PyYAML must be there. The format is in docs/guide/custom_operators.md.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import torch_npu

__all__ = ["generate", "load"]

_loaded: dict[tuple[str, str], str] = {}  # by namespace and file: the C++ that has defined its operators


def _generator() -> tuple[ModuleType, Any]:
    """custom.py, and the aclnn functions that are declared: by packages that the environment names now, and by CANN."""
    package = Path(torch_npu.__path__[0])
    sys.path.insert(0, str(package / "_codegen"))
    try:
        import custom
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ModuleNotFoundError("torch_npu.utils.custom_ops reads YAML: pip install PyYAML", name="yaml") from error
    finally:
        sys.path.pop(0)
    libraries = [Path(path) for path in torch_npu._C._package_libraries()]
    return custom, custom.custom_functions.Functions(package / "include" / "aclnn" / "api.h", libraries)


def _generated(
    file: str | os.PathLike, derivatives: str | os.PathLike | None, library: str, output: str = ""
) -> tuple[str, dict]:
    """The C++, which is to be called `output`, and the operators' names with their lines."""
    custom, functions = _generator()
    return custom.generate(Path(file), Path(derivatives) if derivatives else None, library, functions, output)


def generate(file: str | os.PathLike, derivatives: str | os.PathLike | None = None, library: str = "npu") -> str:
    """The C++ of the operators of `file`, with the gradients of `derivatives`, as torch.ops.<library>.

    ValueError names the file, the line and what is wrong; OSError where a file cannot be read.
    """
    return _generated(file, derivatives, library)[0]


def load(
    file: str | os.PathLike,
    derivatives: str | os.PathLike | None = None,
    library: str = "npu",
    **kwargs: Any,
) -> None:
    """Generates, compiles if something changed, and loads: torch.ops.<library>.<operator> is there when it returns.

    Other arguments are those of torch_npu.utils.cpp_extension.load (build_directory, which is made if it is not there,
    verbose, ...). An operator is defined once a process: what was loaded and has not changed since stays as it is, and
    ValueError names an operator that is there already. Other errors are those of `generate`, of the folder (OSError)
    and of the compiler (RuntimeError).
    """
    from torch.utils.cpp_extension import _get_build_directory

    from torch_npu.utils import cpp_extension

    name = f"npu_custom_{library}_" + re.sub(r"\W", "_", Path(file).stem)
    text, operators = _generated(file, derivatives, library, f"{name}.cpp")
    if _loaded.get((library, Path(file).name)) == text:
        return
    for operator, line in operators.items():
        packet, _, overload = operator.partition(".")
        known = torch._C._jit_get_schemas_for_operator(f"{library}::{packet}")
        if overload in [schema.overload_name for schema in known]:
            raise ValueError(
                f"{Path(file).name}:{line}: torch.ops.{library}.{operator} is defined already, and an operator is "
                "defined once a process: load it in another process, or as another `library`"
            )
    folder = Path(kwargs.pop("build_directory", None) or _get_build_directory(name, False))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.cpp"
    if not source.exists() or source.read_text(encoding="utf-8") != text:
        source.write_text(text, encoding="utf-8")
    cpp_extension.load(name, [str(source)], build_directory=str(folder), is_python_module=False, **kwargs)
    _loaded[library, Path(file).name] = text


if __name__ == "__main__":
    _custom, _functions = _generator()
    sys.exit(_custom.main(_functions))
