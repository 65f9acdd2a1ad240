"""Write the generated pages of docs/: env.md from env.yaml, migrate_differences.md from the tests of the tool,
status.md from the tables and the last run of the vendor's wheel, clients.md from the last run of the frameworks,
training.md from the last run of the networks, the tables at the end of npu_use.md and of
operators/fallbacks.md, and operators/aten.md, operators/npu.md and operators/npu_arguments.md from the tables of
operators.

python tools/dev/gen_docs.py [--check]        --check: change nothing, exit 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import csv
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from tools.codegen import npu_docs, tables  # noqa: E402
from tools.dev import clients_page, operators_page, status_page, training_page  # noqa: E402

READERS = {
    "plugin": "The plugin (torch_npu)",
    "softnpu": "The software NPU",
    "migrate": "The migration tool",
    "build": "The build",
    "tests": "Tests and bench",
    "tools": "Developers' tools",
}
NPU_TABLE = "The table is generated from ops/npu.yaml and ops/npu_arguments.yaml by `make format`."
FALLBACKS = "`make format`; a test compares it with PyTorch's dispatcher."
COLUMNS = ("name", "default", "meaning")


def env_rows(path: Path = ROOT / "docs" / "env.yaml") -> list[dict[str, str]]:
    rows = tables.load(path)
    for row in rows:
        keys = set(row) - {"values"}  # not everybody's values can be checked
        if keys != {*COLUMNS, "by"} or row["by"] not in READERS:
            raise SystemExit(f"docs/env.yaml: {row} needs name, by ({', '.join(READERS)}), default and meaning")
    names = [row["name"] for row in rows]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise SystemExit(f"docs/env.yaml: declared twice: {', '.join(sorted(repeated))}")
    return rows


def cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def env_page(rows: list[dict[str, str]]) -> str:
    lines = [
        "# Environment variables",
        "",
        "Generated from [env.yaml](env.yaml) by `make format`; edit that file. Names that do not begin with `ANYCEND_`"
        " are the vendor's or PyTorch's and keep their meaning.",
    ]
    for reader, title in READERS.items():
        chosen = sorted((row for row in rows if row["by"] == reader), key=lambda row: row["name"])
        if chosen:
            lines += ["", f"## {title}", "", "| name | default | meaning |", "|---|---|---|"]
            lines += [f"| `{row['name']}` | {cell(row['default'])} | {cell(row['meaning'])} |" for row in chosen]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """A cell of a .tsv as code in a table: newlines are written \\n there."""
    lines = text.removeprefix("import torch_npu\\n").removeprefix("import torch\\n").strip("\\n").split("\\n")
    return "<br>".join(f"`{line}`" if line else "" for line in lines).replace("|", "\\|")


def differences_page(rows: list[dict[str, str]]) -> str:
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("kept", "unchanged", "fixed")}
    lines = [
        "# Where pytorch_gpu2npu differs from the original tool",
        "",
        "Generated from tests/migrate/cases/before_after.tsv by `make format`. Of the "
        f"{len(rows)} cases that the original tool was run on, {count['kept']} come out as it wrote them, "
        f"{count['unchanged']} are left as they are because nothing in them needs the `import torch_npu` it added, and "
        f"{count['fixed']} are right now. `import torch` at the beginning, and `import torch_npu` before it in what "
        "changes, are not shown.",
        "",
        "| case | script | becomes | why |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["verdict"] == "fixed":
            after = row["expected"]
            stays = "stays" if after == row["before"] else code(after)
            lines.append(f"| {row['case']} | {code(row['before'])} | {stays} | {cell(row['reason'])} |")
    return "\n".join(lines) + "\n"


def cases(path: Path = ROOT / "tests" / "migrate" / "cases" / "before_after.tsv") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def npu_use_page(path: Path = ROOT / "docs" / "npu_use.md") -> str:
    """The page as it is written, with the table of arguments without effect at its end."""
    written = path.read_text(encoding="utf-8").partition(NPU_TABLE)[0]
    return f"{written}{NPU_TABLE}\n\n{npu_docs.ignored_table(status_page.npu.rows())}"


def fallbacks_page(path: Path = ROOT / "docs" / "operators" / "fallbacks.md") -> str:
    """The page as it is written, with the table of what falls back to the CPU at its end."""
    before = path.read_text(encoding="utf-8").partition(FALLBACKS)[0]
    table = tables.load(ROOT / "ops" / "fallbacks.yaml")
    rows = [f"| {reason} | {', '.join(f'`{name}`' for name in names)} |" for reason, names in table.items()]
    return "\n".join([f"{before}{FALLBACKS}", "", "| why | operators |", "|---|---|", *rows, ""])


@cache
def pages() -> dict[Path, str]:
    return {
        ROOT / "docs" / "env.md": env_page(env_rows()),
        ROOT / "docs" / "migrate_differences.md": differences_page(cases()),
        ROOT / "docs" / "status.md": status_page.page(),
        ROOT / "docs" / "npu_use.md": npu_use_page(),
        ROOT / "docs" / "operators" / "fallbacks.md": fallbacks_page(),
        ROOT / "docs" / "clients.md": clients_page.page(),
        ROOT / "docs" / "training.md": training_page.page(),
        ROOT / "docs" / "operators" / "aten.md": operators_page.aten_page(),
        ROOT / "docs" / "operators" / "npu.md": operators_page.npu_page(),
        ROOT / "docs" / "operators" / "npu_arguments.md": operators_page.npu_arguments_page(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run `make format`")
        else:
            path.write_text(pages()[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
