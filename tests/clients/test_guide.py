"""docs/guide/frameworks.md: each program as it stands, started as its section says in the environment that it names."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.clients import environment

PAGE = (environment.ROOT / "docs/guide/frameworks.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.M | re.S)
SECTIONS = dict(re.findall(r"^## [^\n]*\n\nFamily `(\w+)`\.(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def test_each_family_of_the_page_has_its_list():
    column = " ".join(re.findall(r"^\| .*? \| (.*?) \|", PAGE, re.M))
    named = {*re.findall(r"`(\w+)`", column), *SECTIONS}
    assert len(SECTIONS) == 4 and len(named) == 9 and named - set(environment.families()) == set()


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", SECTIONS)
def test_a_frameworks_program_prints_what_the_page_says(family, tmp_path):
    try:
        python = environment.python(family)
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    program, prints = (code for _, code in BLOCK.findall(SECTIONS[family]))
    (started,) = re.findall(r'`"\$PY" (.*? ?train\.py)`', SECTIONS[family])
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, *started.split()], cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.endswith(prints), done.stdout[-2000:]
