"""tools/dev/clients_page.py: what docs/clients.md says of the record, and when its figures were made (record.py)."""

from __future__ import annotations

import datetime
import re
import subprocess

from tests.clients import record
from tools.codegen import tables
from tools.dev import clients_page

ROWS = {"default": {"allowed": {"fp32": 1e-3, "bf16": 0.1}}, "megatron_gpt": {"family": "megatron", "runs": ["a"]}}
WELL = {"loss": [2.0, 1.0, 1.0], "difference": 1e-7, "fallbacks": {}, "seconds": [1.0, 2.0]}
SEEN = {"date": "2026-01-02", "commit": "abc1234"}


def said(**cases: dict) -> str:
    named = {"seen": SEEN} | {f"a {precision}": what for precision, what in cases.items()}
    return clients_page.framework("megatron-core", "megatron_gpt", "nothing", ROWS, {"megatron_gpt-4": named})


def test_a_framework_works_where_every_run_is_right():
    works = "| megatron-core 0.16.1 | works: 2 runs, 4 cards | nothing |"
    assert said(fp32=WELL, bf16=WELL | {"difference": 0.09}) == works
    fails = "| megatron-core 0.16.1 | 1 fail, of 2 runs, 4 cards | nothing |"
    for wrong in ({"error": "no"}, WELL | {"difference": 0.2}, WELL | {"fallbacks": {"aten::add": 1}}):
        assert said(fp32=WELL, bf16=wrong) == fails


def test_every_row_of_the_record_belongs_to_a_framework():
    rows = tables.load(clients_page.CLIENTS / "clients.yaml")
    assert {name for _, groups, _ in clients_page.FRAMEWORKS for name in groups.split()} == set(rows) - {"default"}
    for name, row in rows.items():
        assert row.get("means", {}).keys() <= set(row.get("runs", ())), name


def test_what_a_reader_needs_first_comes_first():
    headings = re.findall(r"^(?:## .*|\| framework .*)", clients_page.page(), re.M)
    assert headings[:3] == ["| framework | what came of it | what to change in a program |", "## What to know",
                            "## What a row says"]  # fmt: skip
    assert "`offload3`: stage 3, the parameters on the host, too" in clients_page.page()


def test_days_are_those_of_the_record():
    assert clients_page.days({"a-1": {}, "b-1": {}}) == []
    assert clients_page.days({"a-1": {"seen": SEEN}, "b-1": {"seen": SEEN}}) == ["Seen: 2026-01-02 at abc1234.", ""]
    other = {"date": "2026-01-03"}
    assert clients_page.days({"a-1": {"seen": SEEN}, "b-1": {"seen": other}, "c-1": {}}) == [
        "Seen: `a-1` 2026-01-02 at abc1234; `b-1` 2026-01-03.", ""
    ]  # fmt: skip


def test_a_record_has_its_day_and_commit():
    before = datetime.date.today().isoformat()
    seen = record.seen()
    assert before <= seen["date"] <= datetime.date.today().isoformat()
    git = ["git", "-C", str(record.RECORD.parent), "rev-parse", "HEAD"]
    head = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    commit = seen.get("commit", "").removesuffix("-dirty")
    assert head.startswith(commit) and bool(commit) == bool(head)
