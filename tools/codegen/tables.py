"""The project's YAML tables: every tool and test reads them here, so that all are read alike.

A key written twice in one mapping is an error that names both lines: YAML would keep the last and drop the first
without a word.
Who calls it: the generators beside it, tools/dev, tools/abi and the tests. What it is not: it knows no table's columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: dict[tuple[str, str], yaml.Mark] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                first = seen.setdefault((key.tag, key.value), key.start_mark)
                if first is not key.start_mark:
                    text = f"{key.value!r} is written twice in one mapping: lines {first.line + 1} and"
                    raise yaml.constructor.ConstructorError(None, None, f"{text} {key.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def parse(text: str) -> Any:
    """What the YAML text says: dicts, lists, strings, numbers. A repeated key is a yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


def item_lines(text: str) -> dict[str, list[int]]:
    """The line on which each item of a list begins, by the key of the list; "" where the text is a list."""
    node = yaml.compose(text, Loader=_Loader)
    if isinstance(node, yaml.MappingNode):
        lists = {key.value: value for key, value in node.value}
    else:
        lists = {"": node}
    return {
        key: [item.start_mark.line + 1 for item in value.value]
        for key, value in lists.items()
        if isinstance(value, yaml.SequenceNode)
    }


def load(path: Path) -> Any:
    """The table in a file; an error names the file."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SystemExit(f"{path}: {error}") from error
