"""softnpu/root/set_env.sh: sourced by any shell it names the root, or says aloud that it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import torch_npu

ROOT = Path(torch_npu.__path__[0]) / "softnpu"
PLACES = (".", "ascend-toolkit", "ascend-toolkit/latest", "nnae")
SHELLS = {
    "bash": ["bash", "-c"],
    "bash as sh": ["bash", "--posix", "-euc"],
    "dash": ["dash", "-c"],
    "dash -eu": ["dash", "-euc"],
    "dash -f": ["dash", "-fc"],
    "zsh": ["zsh", "-fc"],
    "zsh -eu": ["zsh", "-feuc"],
}
# Options that change what $0, ${...} and words mean, or what is complained of.
OPTIONS = (
    "setopt no_function_argzero", "emulate ksh", "emulate sh", "emulate csh",
    "setopt ksh_arrays sh_word_split glob_subst",
    "setopt warn_create_global", "setopt posix_builtins posix_identifiers",
)  # fmt: skip


def sourced(shell: list[str], script: str, folder: Path) -> subprocess.CompletedProcess:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run([*shell, script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def names_the_root(shell: list[str], script: str, folder: Path) -> None:
    done = sourced(shell, f'{script}\necho "$ASCEND_HOME_PATH"; env | grep -c _anycend || true', folder)
    assert (done.returncode, done.stderr) == (0, "")
    home, left = done.stdout.split()
    assert Path(home) == ROOT.resolve() and left == "0"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_sources_it_has_the_root(shell, place, tmp_path):
    names_the_root(SHELLS[shell], f'. "{ROOT}/{place}/set_env.sh"', tmp_path)


@pytest.mark.parametrize("option", OPTIONS)
def test_zsh_with_any_options(option, tmp_path):
    names_the_root(SHELLS["zsh"], f'{option}; f() {{ . "{ROOT}/nnae/set_env.sh"; }}; f', tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_in_a_subshell_by_a_link_and_twice(shell, tmp_path):
    folder = tmp_path / "Ascend 1"
    folder.mkdir()
    (folder / "set_env.sh").symlink_to(ROOT / "set_env.sh")
    line = f'. "{folder}/set_env.sh"'
    names_the_root(SHELLS[shell], f"({line}) && {line}\n{line}", tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_copy_elsewhere_sets_nothing_and_says_so(shell, tmp_path):
    shutil.copy(ROOT / "set_env.sh", tmp_path)
    done = sourced(SHELLS[shell], '. ./set_env.sh || echo "failed${ASCEND_HOME_PATH-}"', tmp_path)
    # dash with set -e ends at a `return 1` of a file, also on the left of ||.
    assert (done.returncode, done.stdout) == ((1, "") if shell == "dash -eu" else (0, "failed\n"))
    assert done.stderr.startswith("set_env.sh: nothing is set: ") and "anycend run -- command" in done.stderr


def test_a_shell_that_does_not_say_which_file_it_reads_sets_nothing(tmp_path):
    script = f'cat "{ROOT}/set_env.sh" | {{ . /dev/stdin; echo "$?$ASCEND_HOME_PATH"; }}'
    done = sourced(["dash", "-c"], script, ROOT)
    assert done.stdout == "1\n" and done.stderr.startswith("set_env.sh: nothing is set: ")
