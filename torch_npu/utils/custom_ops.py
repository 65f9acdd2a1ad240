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

import torch_npu

__all__ = ["generate", "load"]


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
    return custom, custom.Functions(package / "include" / "aclnn" / "api.h", libraries)


def generate(file: str | os.PathLike, derivatives: str | os.PathLike | None = None, library: str = "npu") -> str:
    """The C++ of the operators of `file`, with the gradients of `derivatives`, as torch.ops.<library>.

    ValueError names the file, the line and what is wrong; OSError where a file cannot be read.
    """
    custom, functions = _generator()
    return custom.generate(Path(file), Path(derivatives) if derivatives else None, library, functions)


def load(
    file: str | os.PathLike,
    derivatives: str | os.PathLike | None = None,
    library: str = "npu",
    **kwargs: Any,
) -> None:
    """Generates, compiles if something changed, and loads: torch.ops.<library>.<operator> is there when it returns.

    Other arguments are those of torch_npu.utils.cpp_extension.load (build_directory, which is made if it is not there,
    verbose, ...). Once a process: an operator can be defined once. Errors are those of `generate`, of the folder
    (OSError) and of the compiler (RuntimeError).
    """
    from torch.utils.cpp_extension import _get_build_directory

    from torch_npu.utils import cpp_extension

    text = generate(file, derivatives, library)
    name = f"npu_custom_{library}_" + re.sub(r"\W", "_", Path(file).stem)
    folder = Path(kwargs.pop("build_directory", None) or _get_build_directory(name, False))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.cpp"
    if not source.exists() or source.read_text(encoding="utf-8") != text:
        source.write_text(text, encoding="utf-8")
    cpp_extension.load(name, [str(source)], build_directory=str(folder), is_python_module=False, **kwargs)


if __name__ == "__main__":
    _custom, _functions = _generator()
    sys.exit(_custom.main(_functions))
