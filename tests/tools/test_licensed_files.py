"""tools/dev/licensed_files.py: which files of a clone may be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

APACHE = "// Licensed under the Apache License, Version 2.0\n"
CANN = "/* This is licensed under the CANN Open Software License Agreement Version 2.0 */\n"
FILES = {
    "LICENSE": "Redistribution and use in source and binary forms, with or without modification, are permitted",
    "plain.h": "#pragma once\nint a;\n",
    "apache.cpp": APACHE + "int b;\n",
    "a/cann.h": "#ifndef A\n#define A\n" + CANN + "int c;\n",
    "a/plain.h": "int d;\n",
    "a/mit.h": "/* SPDX-License-Identifier: MIT */\n",
    "b/LICENSE.md": "GNU GENERAL PUBLIC LICENSE",
    "b/plain.h": "int e;\n",
    "b/other.h": "// Some Other License\n",
    "c/late.h": "int f;\n// CANN Open Software License\n",
    "c/data.txt": "no source",
}


def test_files_are_taken_by_their_headers_then_by_the_folder(tmp_path):
    clone, target = tmp_path / "clone", tmp_path / "target"
    for name, text in FILES.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text)
    git = ["git", "-C", clone, "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "files"], check=True)
    tool = [sys.executable, ROOT / "tools" / "dev" / "licensed_files.py", clone, target]
    out = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    taken = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()}
    assert taken == {"plain.h", "apache.cpp", "a/mit.h", "c/late.h"}
    assert (target / "apache.cpp").read_text() == FILES["apache.cpp"]
    assert [line.strip() for line in out.splitlines()] == [
        "4 taken",
        "1 its header forbids other processors",
        "1 has no header, and a file beside it forbids other processors",
        "1 its header is none of BSD, Apache, MIT",
        "1 b/LICENSE.md is none of BSD, Apache, MIT",
    ]
