"""A unit: a kernel's source file and how it is compiled (recipes.yaml). Made by __main__.py, compiled by compile.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tools.codegen import tables

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Unit:
    name: str  # repository/path
    folder: Path  # the repository's permitted files; its name is the commit
    recipe: dict = field(compare=False)

    @property
    def path(self) -> str:
        return self.name.partition("/")[2]

    @property
    def source(self) -> Path:
        return self.folder / self.path

    @property
    def soc(self) -> str:
        return self.recipe.get("soc", "ascend910b")

    @property
    def is_package(self) -> bool:
        return "package" in self.recipe

    @property
    def identity(self) -> str:
        """What compiling it depends on, beside the product."""
        return yaml.safe_dump([self.name, self.folder.name, self.recipe])

    def options(self) -> list[str]:
        """Of bisheng or opp_build, but for the output."""
        at = [f"-I{self.folder / f}" for f in self.recipe.get("include", [])]
        at += [f"-D{macro}" for macro in self.recipe.get("define", [])]
        if self.is_package:
            projects = [str(self.folder / f) for f in self.recipe["package"]]
            return [*projects, *at, f"--soc={self.soc}", f"--only={self.source.stem}", "--keep-going", "-j1", "-O0"]
        if "tiling_data" in self.recipe:
            at.append(f"--tiling-data={self.folder / self.recipe['tiling_data']}")
        if "tiling_key" in self.recipe:
            at.append(f"--tiling-key={self.recipe['tiling_key']}")
        if self.soc == "ascend950":
            at.append("--npu-arch=dav-3510")
        return ["-O0", "-w", "-shared", "-fPIC", *at, "-x", "asc", str(self.source)]


def units(repository: str, folder: Path, paths: list[str]) -> list[Unit]:
    recipes = tables.load(HERE / "recipes.yaml")
    made = []
    for path in paths:
        name = f"{repository}/{path}"
        recipe = next((r for r in recipes if fnmatchcase(name, r["match"])), {})
        made.append(Unit(name, folder, {k: v for k, v in recipe.items() if k != "match"}))
    return made
