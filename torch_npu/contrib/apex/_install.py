"""The name `apex` for torch_npu.contrib.apex, for this process or for those that find a file. Called by users."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HOME = "torch_npu.contrib.apex"
SHIM = '''"""`import apex` is torch_npu.contrib.apex. Written by `python -m torch_npu.contrib.apex`."""

from torch_npu.contrib.apex import install

install()
'''


def install(folder: str | Path | None = None) -> Path | None:
    """Lets `import apex` find torch_npu.contrib.apex.

    Args:
        folder: writes a module apex there, for programs that have the folder on their path; it is made if it is not
            there. Without it the name is given in this process alone.

    Returns: the file, if one was written. Raises: ImportError if another apex is installed (in this process);
    FileExistsError if the folder has another apex; OSError if the folder cannot be made or written.
    """
    if folder is not None:
        file = Path(folder) / "apex.py"
        if (Path(folder) / "apex").exists() or (file.exists() and file.read_bytes() != SHIM.encode()):
            raise FileExistsError(f"{folder} has another apex: remove it first, or choose another folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(SHIM.encode())
        return file
    present = sys.modules.get("apex")
    spec = getattr(present, "__spec__", None) if present else importlib.util.find_spec("apex")
    origin = spec.origin if spec is not None else None
    ours = present is sys.modules[HOME] or (origin is not None and Path(origin).name == "apex.py")
    if spec is not None and not ours:
        raise ImportError(f"another apex is installed, {origin}: uninstall it to give its name to torch_npu's")
    for name, module in list(sys.modules.items()):
        if name == HOME or name.startswith(HOME + "."):
            sys.modules["apex" + name[len(HOME) :]] = module
    return None
