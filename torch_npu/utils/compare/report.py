"""What was found, as text, CSV and one HTML page. Who uses it: this package's context manager, `anycend compare`."""

from __future__ import annotations

import csv
import html
from collections.abc import Iterator
from pathlib import Path

from torch_npu.utils.compare.findings import Findings, Row

COLUMNS = ("operator", "line", "calls", "deviated", "first", "error", "absolute", "relative", "found", "expected",
           "kind", "why", "process")  # fmt: skip
SHOWN = 20  # rows of the text
STYLE = """
body { font: 14px/1.5 sans-serif; max-width: 90em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums } tr.bad { background: #fdd }
"""


def verdict(found: Findings) -> str:
    count = sum(row.deviated for row in found.rows.values())
    if not found.calls:
        return "compare: no operator ran on the npu"
    share = f"{found.compared} of {found.calls} calls on the npu were compared with the CPU"
    return f"compare: {share}, {count or 'none'} deviated; {spent(found)}"


def spent(found: Findings) -> str:
    each = found.overhead / max(found.compared, 1) * 1e3
    return f"{found.seconds:.1f} s, {found.slowdown:.1f} times the time without, {each:.2g} ms a comparison"


def where(title: str, row: Row | None) -> list[str]:
    if row is None:
        return []
    what = row.why or (
        f"{row.found:.7g} where {row.expected:.7g} is right: {row.error:.3g} times the tolerance, {row.kind}"
    )
    return [f"  {title}: {row.operator} at {at(row)}: {what}"]


def at(row: Row) -> str:
    return f"{row.line} (process {row.process})" if row.process else row.line


def ordered(found: Findings) -> list[Row]:
    """What deviated in the order it began, then the rest, the largest error first."""
    rest = [row for row in found.rows.values() if not row.deviated]
    return [*found.deviated, *sorted(rest, key=lambda row: -row.error)]


def skipped(found: Findings) -> Iterator[tuple[str, int, str]]:
    for reason, of in sorted(found.skipped.items()):
        names = ", ".join(f"{name} {count}" for name, count in sorted(of.items(), key=lambda one: -one[1]))
        yield reason, sum(of.values()), names


def text(found: Findings) -> str:
    lines = [verdict(found), *where("first", found.first), *where("worst", found.worst)]
    rows = ordered(found)[:SHOWN]
    if rows:
        cells = [("operator", "calls", "deviated", "error", "line")]
        cells += [(row.operator, str(row.calls), str(row.deviated), f"{row.error:.2g}", at(row)) for row in rows]
        wide = [max(len(row[i]) for row in cells) for i in range(4)]
        lines += [
            f"  {a:{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d:>{wide[3]}}  {line}" for a, b, c, d, line in cells
        ]
        if more := len(found.rows) - len(rows):
            lines.append(f"  … {more} rows more in the CSV")
        lines.append("  error: of the worst call, times the type's tolerance")
    lines += [f"  not compared: {count} calls, {reason}: {names[:160]}" for reason, count, names in skipped(found)]
    return "\n".join(lines)


def write_csv(found: Findings, file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(COLUMNS)
        rows.writerows([getattr(row, name) for name in COLUMNS] for row in ordered(found))


def write_html(found: Findings, file: Path) -> None:
    """One file, with nothing to load."""

    def cell(value: object) -> str:
        number = isinstance(value, int | float)
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f'<td class="n">{shown}</td>' if number else f"<td>{html.escape(shown)}</td>"

    def line(row: Row) -> str:
        bad = ' class="bad"' if row.deviated else ""
        return f"<tr{bad}>{''.join(cell(getattr(row, name)) for name in COLUMNS)}</tr>"

    summary = [verdict(found), *where("first", found.first), *where("worst", found.worst)]
    page = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>npu and CPU</title>',
        f"<style>{STYLE}</style><h1>Operators: npu and CPU</h1>",
        *(f"<p>{html.escape(each)}</p>" for each in summary),
        "<table><tr>", *(f"<th>{name}</th>" for name in COLUMNS), "</tr>",
        *map(line, ordered(found)), "</table>",
        "<p>error: of the worst call, times the type's tolerance; first: number of the first call that deviated.</p>",
        "<h2>Not compared</h2><table><tr><th>why</th><th>calls</th><th>operators</th></tr>",
        *(f"<tr>{''.join(map(cell, row))}</tr>" for row in skipped(found)),
        "</table></html>",
    ]  # fmt: skip
    file.write_text("\n".join(page) + "\n", encoding="utf-8")


def write(found: Findings, folder: Path) -> None:
    """compare.csv and compare.html."""
    write_csv(found, folder / "compare.csv")
    write_html(found, folder / "compare.html")
