"""What parameters an aclnn function has: of a package's own by the header that ships with it, of CANN's by api.h.

A package's function of a built-in's name is what is called, so its parameters count and not the built-in's.
"""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

# Inputs that CANN declares without const, as what is written is.
READ = {(f"aclnnGroupedMatmulFinalizeRouting{v}", name) for v, name in (("", "w"), ("V2", "x2"), ("V3", "x2"))}
TENSORS = re.compile(r"(const )?aclTensor(?:List)?\s*\*")


class Parameter(NamedTuple):
    """`text` as it is declared, `type` without const and name. `is_written`: a tensor, or a list, that is not const;
    `is_read`: one that is."""

    text: str
    type: str
    is_written: bool
    is_read: bool


class Functions:
    """`prototypes`: aclnn/api.h. `libraries`: where packages' libraries would lie, in the order they are searched."""

    def __init__(self, prototypes: Path, libraries: list[Path]) -> None:
        self.declarations = prototypes.read_text(encoding="utf-8")
        self.libraries = [path for path in libraries if path.is_file()]

    def parameters(self, function: str) -> tuple[list[Parameter] | None, str]:
        """Those before workspaceSize and executor, None where nothing declares it; and whose function it is."""
        for library in self.libraries:
            if f"{function}GetWorkspaceSize" not in defined(library):
                continue
            package = library.parent.parent
            for header in sorted((package / "include").glob("*.h")):
                if (found := declared(function, header.read_text(encoding="utf-8", errors="replace"))) is not None:
                    return found, f"the package {package.parent}"
            return None, f"the package {package.parent}"
        return declared(function, self.declarations), "CANN"

    def nearest(self, function: str) -> list[str]:
        """Of CANN and of packages: functions that are called nearly so."""
        names = set(re.findall(r"\b(acl\w+)GetWorkspaceSize\s*\(", self.declarations))
        for library in self.libraries:
            names |= {n.removesuffix("GetWorkspaceSize") for n in defined(library) if n.endswith("GetWorkspaceSize")}
        bare = {name.removeprefix("aclnn").lower(): name for name in sorted(names)}
        close = difflib.get_close_matches(function.removeprefix("aclnn").lower(), bare, 3, 0.75)
        return [bare[name] for name in close]


@functools.cache
def defined(library: Path) -> frozenset[str]:
    """The functions that a library has, not those of others that it calls. Empty where it cannot be read."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=False)
    return frozenset(line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.split())


def declared(function: str, text: str) -> list[Parameter] | None:
    """Phase one's parameters before workspaceSize and executor; None where it is not declared."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = re.search(rf"\b{function}GetWorkspaceSize\s*\(([^)]*)\)", plain)
    if not found:
        return None
    return [parameter(function, " ".join(part.split())) for part in found[1].split(",")[:-2]]


def parameter(function: str, text: str) -> Parameter:
    bare = re.sub(r"\s*\w+$", "", text.removeprefix("const "))
    name = text.removeprefix("const ").removeprefix(bare).strip()
    tensors = TENSORS.match(text)
    written = tensors is not None and tensors[1] is None and (function, name) not in READ
    return Parameter(text, bare, written, tensors is not None and tensors[1] is not None)
