"""Which environment variables a C++ or Python file reads: a text check that knows how the sources ask for them.

A reader is getenv and its kin, or a function of the same file that hands its parameter to one (text_of, flag, ...).
A name is what a reader is called with: a literal, or a constant of the file that holds one.
"""

from __future__ import annotations

import re

NAME = r"[A-Z][A-Z0-9_]{2,}"
LITERAL = re.compile(rf"""["']({NAME})["']""")
CONSTANT = re.compile(rf"""\b(\w+)\s*=\s*["']({NAME})["']\s*[;\n]""")
# `"NAME" in os.environ`, and a line of a dictionary or a keyword that makes a child's environment is not a read.
ASKED = re.compile(rf"""["']({NAME})["']\s+(?:not )?in (?:os\.)?environ\b""")
PYTHON = {r"environ\.get", r"environ\.pop", r"environ\.setdefault", r"environ(?=\[)", "getenv"}
CPP = {"getenv"}
# A function's head, and its body up to a brace or a definition in the first column.
FUNCTION = {
    "cpp": re.compile(r"^[\w:<>*& ]*?\b(\w+)\(([^()]*\bchar\s*\*[^()]*)\)[^;{]*\{(.*?)(?:^\}|(?<=\})$)", re.M | re.S),
    "py": re.compile(r"^ *def (\w+)\(([^()]*)\)[^:]*:\n(.*?)(?=^\S|\Z)", re.M | re.S),
}


def calls(readers: set[str], text: str) -> list[str]:
    """What readers are called with: the text up to the bracket that ends the call."""
    found = []
    for match in re.finditer(rf"(?:\b(?:{'|'.join(sorted(readers))}))\s*[(\[]", text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += (text[end] in "([") - (text[end] in ")]")
            end += 1
        found.append(text[match.end() : end - 1])
    return found


def parameters(text: str) -> set[str]:
    return {
        re.sub(r"[:=].*", "", part, flags=re.S).split("*")[-1].split()[-1] for part in text.split(",") if part.strip()
    }


def read(name: str, text: str) -> set[str]:
    """The variables that the file of this name reads."""
    if "getenv" not in text and "environ" not in text:
        return set()
    python = name.endswith(".py")
    readers = set(PYTHON if python else CPP)
    functions = [match.groups() for match in FUNCTION["py" if python else "cpp"].finditer(text)]
    while True:
        more = {
            function
            for function, head, body in functions
            if function not in readers
            and any(word in parameters(head) for call in calls(readers, body) for word in re.findall(r"^\w+", call))
        }
        if not more:
            break
        readers |= more
    constants = dict(CONSTANT.findall(text))
    found = set(ASKED.findall(text))
    found |= {
        constants[word] for word in re.findall(r"\b(\w+) (?:not )?in (?:os\.)?environ\b", text) if word in constants
    }
    for call in calls(readers, text):
        found |= set(LITERAL.findall(call))
        found |= {constants[word] for word in re.findall(r"\b\w+\b", call) if word in constants}
    return found
