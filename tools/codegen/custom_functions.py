"""What parameters an aclnn function has: of a package's own by the header that ships with it, of CANN's by api.h.

A package's function of a built-in's name is what is called, so its parameters count and not the built-in's.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path


class Functions:
    """`prototypes`: aclnn/api.h. `libraries`: where packages' libraries would lie, in the order they are searched."""

    def __init__(self, prototypes: Path, libraries: list[Path]) -> None:
        self.declarations = prototypes.read_text(encoding="utf-8")
        self.libraries = [path for path in libraries if path.is_file()]

    def parameters(self, function: str) -> tuple[list[str] | None, str]:
        """The types before workspaceSize and executor, None where nothing declares it; and whose function it is."""
        for library in self.libraries:
            if f"{function}GetWorkspaceSize" not in defined(library):
                continue
            package = library.parent.parent
            for header in sorted((package / "include").glob("*.h")):
                if (types := declared(function, header.read_text(encoding="utf-8", errors="replace"))) is not None:
                    return types, f"the package {package.parent}"
            return None, f"the package {package.parent}"
        return declared(function, self.declarations), "CANN"


@functools.cache
def defined(library: Path) -> frozenset[str]:
    """The functions that a library has, not those of others that it calls. Empty where it cannot be read."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=False)
    return frozenset(line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.split())


def declared(function: str, text: str) -> list[str] | None:
    """The types of phase one's parameters before workspaceSize and executor; None where it is not declared."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = re.search(rf"\b{function}GetWorkspaceSize\s*\(([^)]*)\)", plain)
    if not found:
        return None
    parts = [p.strip() for p in found[1].split(",")][:-2]
    return [re.sub(r"\s*\w+$", "", p.removeprefix("const ")) for p in parts]
