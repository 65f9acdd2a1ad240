"""Command lines of the generators: the forms that a docstring has, a line each; whatever else is given prints them."""

from __future__ import annotations

import re
import sys

FORM = re.compile(r"^ +python tools/.*", re.M)


def read(doc: str, **takes: int) -> tuple[str, list[str]]:
    """The option without its dashes, and the arguments behind it; `folders` where there is none. `takes`: how many
    each has.
    """
    forms = "\n".join(line.strip() for line in FORM.findall(doc))
    given = sys.argv[1:]
    if given in (["--help"], ["-h"]):
        print(forms)
        raise SystemExit(0)
    option = given.pop(0).removeprefix("--") if given and given[0].startswith("--") else "folders"
    if takes.get(option) != len(given) or any(argument.startswith("-") for argument in given):
        raise SystemExit(f"{' '.join(sys.argv[1:]) or 'no argument'}: what it takes is\n{forms}")
    return option, given
