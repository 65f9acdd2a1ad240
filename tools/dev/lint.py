"""Format, lint, layer, length and documentation checks over every tracked file, through one command.

    python tools/dev/lint.py          report; exit 1 if anything is to be repaired      (make lint)
    python tools/dev/lint.py --fix    repair what can be repaired first                 (make format)

clang-format and ruff are the pinned Python packages of requirements/dev.txt, taken from the environment this runs in,
so that everybody formats alike.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
CPP_SUFFIXES = {".h", ".hpp", ".cpp", ".cc"}


def tracked(suffixes: set[str]) -> list[str]:
    """Tracked files and new ones that git does not ignore; links and deleted files are left out."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    paths = [ROOT / name for name in names if Path(name).suffix in suffixes]
    return [str(path) for path in sorted(set(paths)) if path.is_file() and not path.is_symlink()]


def commands(fix: bool) -> list[tuple[str, list[str]]]:
    cpp, python = tracked(CPP_SUFFIXES), tracked({".py"})
    ruff = str(SCRIPTS / "ruff")
    clang_format = [str(SCRIPTS / "clang-format"), *(["-i"] if fix else ["--dry-run", "--Werror"])]
    return [
        ("clang-format", [*clang_format, *cpp] if cpp else []),
        ("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), *python]),
        ("ruff format", [ruff, "format", "--quiet", *([] if fix else ["--check"]), *python]),
        ("layers", [sys.executable, "tools/dev/check_layers.py"]),
        ("files", [sys.executable, "tools/dev/check_files.py"]),
        ("docs", [sys.executable, "tools/dev/gen_docs.py", *([] if fix else ["--check"])]),
    ]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    fix, failed = parser.parse_args().fix, []
    wanted = [(name, command) for name, command in commands(fix) if command]
    with ThreadPoolExecutor(1 if fix else os.cpu_count()) as pool:  # repairs change files that the next one reads
        for (name, _), done in zip(wanted, pool.map(run, [command for _, command in wanted]), strict=True):
            print(f"{done.stdout}{done.stderr}{name:13} {'FAILED' if done.returncode else 'ok'}", flush=True)
            if done.returncode:
                failed.append(name)
    if failed:
        print(f"lint: {', '.join(failed)} failed; `make format` repairs formatting, import order and generated docs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
