"""`anycend docs`: the pages of documentation that messages name, as they are installed beside this package."""

from __future__ import annotations

import difflib
import pydoc
import sys
from pathlib import Path

from . import Refused

FOLDER = Path(__file__).resolve().parent / "docs"


def pages(folder: Path = FOLDER) -> dict[str, str]:
    """Names, such as ascendc or guide/custom_operators, with each page's first heading."""
    found = {}
    for page in sorted(folder.rglob("*.md")):
        name = page.relative_to(folder).with_suffix("").as_posix()
        if page.name != "README.md" and not name.startswith("adr/"):
            with page.open(encoding="utf-8", errors="replace") as lines:
                found[name] = next((line.strip("# \n") for line in lines if line.startswith("# ")), "")
    return found


def text(name: str | None, folder: Path = FOLDER) -> str:
    """A page; without a name, a line for each. `name` may be a page's path, as docs/ascendc.md."""
    known = pages(folder)
    if not known:
        raise Refused(f"no pages in {folder}: reinstall this distribution")
    if name is None:
        width = max(map(len, known))
        return "".join(f"{one:{width}}  {title}\n" for one, title in known.items())
    wanted = name.removeprefix("docs/").removesuffix(".md")
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1, 0.5) or [one for one in known if one.endswith("/" + wanted)]
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise Refused(f"no page {wanted!r}{meant}; all of them: anycend docs")
    return (folder / f"{wanted}.md").read_text(encoding="utf-8", errors="replace")


def show(name: str | None) -> None:
    """In a pager, where there is a terminal."""
    said = text(name)
    if sys.stdout.isatty():
        pydoc.pager(said)
    else:
        print(said, end="")
