"""Turn a table of the data types that CANN's documentation has into rows of ops/hardware.yaml.

python tools/abi/import_types.py TYPES.tsv PAGES.tsv [--show FUNCTION]

TYPES.tsv is the table that compare_types.py reads; PAGES.tsv has function and products (the chips that its page names,
in the folder of ANYCEND_FACTS abi/aclnn_formula.tsv). What a row says wins over this import: rows already present are
kept, so a correction made in ops/hardware.yaml survives. A function gets a row where its page names the type of any
tensor of it; the tensors whose types it leaves open, or names in types alone that ops/types.yaml does not have (int4 in
two halves of a byte), are `?`. No row: functions whose page names none, and those that the plugin calls for
PyTorch's operators on every chip although the page names Ascend950 alone.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "codegen"), str(ROOT / "tools" / "abi")]
import abi  # noqa: E402
import opapi  # noqa: E402
import opapi_types  # noqa: E402
import tables  # noqa: E402
from compare_types import COLUMNS, documented  # noqa: E402

PRODUCTS = {"a2": "A2", "a3": "A3", "a5": "950", "a1": "910"}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def called_for_pytorch() -> set[str]:
    """Functions that the plugin calls for PyTorch's operators, whatever the chip."""
    ops = ROOT / "torch_npu" / "csrc" / "ops"
    sources = [path for path in ops.rglob("*.cpp") if path.parent.name != "npu"]
    text = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "ops" / "aten.yaml", *sources])
    return set(re.findall(r"\baclnn\w+", text))


def part(rows: dict[str, dict[str, str]], chip: str, tensors: list[str], letters: dict[str, str]) -> str | None:
    """What a family takes, in the order of the tensors; None where the table has no type of it."""
    groups: dict[str, list[str]] = {}
    for name in tensors:
        types = documented(rows[name][COLUMNS[chip]], chip) if name in rows else set()
        groups.setdefault("".join(c for c, word in letters.items() if word in types) or "?", []).append(name)
    return None if set(groups) <= {"?"} else " ".join(f"{c}:{','.join(names)}" for c, names in groups.items())


def row(rows: dict[str, dict[str, str]], products: str | None, tensors: list[str]) -> str | None:
    table = tables.load(opapi_types.HARDWARE)
    parts = []
    for chip in table["families"]:
        on_page = products is None or PRODUCTS[chip] in products.split()
        parts.append((part(rows, chip, tensors, table["letters"]) if on_page else None) or "-")
    if set(parts) == {"-"}:
        return None
    short = [parts[0], *("=" if p == parts[0] and p != "-" else p for p in parts[1:])]
    while short[-1] == "=":
        short.pop()
    return " / ".join(short)


def missing(types: Path, pages: Path) -> dict[str, str]:
    """Function of ops/aclnn.yaml without a row -> the row, where the documents have types of it."""
    documents: dict[str, dict[str, dict[str, str]]] = {}
    for line in read(types):
        if "aclTensor" in line["ctype"]:
            documents.setdefault(line["function"], {})[line["parameter"]] = line
    products = {line["function"]: line["products"] for line in read(pages)}
    params, have, everywhere = abi.aclnn(), opapi_types.hardware(), called_for_pytorch()
    found = {}
    for function in (r.name for r in opapi.rows()):
        if function in have or function not in documents:
            continue
        tensors = [p.name for p in params[function] if opapi.kind_of(p) in ("aclTensor", "aclTensorList")]
        text = row(documents[function], products.get(function) or None, tensors)
        if text and not (text.startswith("- / -") and function in everywhere):
            found[function] = text
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", type=Path)
    parser.add_argument("pages", type=Path)
    parser.add_argument("--show", metavar="FUNCTION", help="print this row instead of writing all")
    options = parser.parse_args()
    if absent := [str(path) for path in (options.types, options.pages) if not path.is_file()]:
        parser.error(f"no file: {', '.join(absent)}")
    found = missing(options.types, options.pages)
    if options.show:
        print(found.get(options.show, f"{options.show}: no new row"))
        return
    with opapi_types.HARDWARE.open("a", encoding="utf-8") as table:
        table.writelines(f'  {function}: "{text}"\n' for function, text in found.items())
    print(f"{len(found)} rows")


if __name__ == "__main__":
    main()
