"""A list of attributes that were set, so that they can be put back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch_npu._when_imported import WhenImported

_MISSING = object()


class Attributes:
    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._waiting: list[WhenImported] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, remembering what its own dictionary held (staticmethods as such, inherited ones not)."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def rebind(self, package: str, old: Any, new: Any) -> None:
        """Replace an object under every name it has in the modules of `package`: they import it from each other."""
        for module_name, module in list(sys.modules.items()):
            if module is None or not (module_name == package or module_name.startswith(package + ".")):
                continue
            for name, value in list(vars(module).items()):
                if value is old:
                    self.set(module, name, new)

    def when_imported(self, module: str, action: Callable[[ModuleType], None]) -> None:
        self._waiting.append(WhenImported(module, action))

    def restore(self) -> None:
        while self._waiting:
            self._waiting.pop().cancel()
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    def names(self) -> list[str]:
        return [f"{getattr(owner, '__qualname__', owner.__name__)}.{name}" for owner, name, _ in self._undo]
