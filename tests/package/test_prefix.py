"""`anycend install --prefix`: the documents' lines on what it lays out, and what it refuses (command/install.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from anycend import Refused, install, root
from anycend.__main__ import main

from tests.seeds import document

DEFAULT = "/usr/local/Ascend"  # what the documents write; the tests' folder takes its place


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    folder = tmp_path / "Ascend"
    assert main(["install", "--prefix", str(folder)]) == 0
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Every path below the folder: a link's target, a file's text, or "" for a folder."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else
        path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def bash(script: str, **environment: str) -> str:
    keep = {name: os.environ[name] for name in ("HOME", "PYTHONPATH", "XDG_RUNTIME_DIR") if name in os.environ}
    keep["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script], env=keep | environment, capture_output=True, text=True, cwd="/", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def documents_lines(seeds: Path, number: str, pattern: str) -> list[str]:
    """The lines of a document that match, stripped, each once."""
    lines = map(str.strip, document.read(seeds, number).splitlines())
    found = list(dict.fromkeys(line for line in lines if re.search(pattern, line)))
    assert found, pattern
    return found


def test_it_leads_to_the_root(prefix):
    assert {path: prefix.joinpath(path).resolve() for path in install.LINKS} == {
        path: (root() / target).resolve() for path, target in install.LINKS.items()
    }
    record = json.loads((prefix / install.RECORD).read_text())
    assert record["root"] == str(root()) and sorted(record["links"]) == sorted(install.LINKS)


def test_again_is_the_same(prefix, capsys):
    before = tree(prefix)
    assert main(["install", "--prefix", str(prefix)]) == 0
    assert tree(prefix) == before
    assert f"source {prefix}/ascend-toolkit/set_env.sh" in capsys.readouterr().out


def test_uninstall_takes_back_exactly_what_was_made(tmp_path, capsys):
    theirs = tmp_path / "there"
    (theirs / "models").mkdir(parents=True)
    (theirs / "models" / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    folder = theirs / "new" / "Ascend"
    for place in (folder, theirs):
        assert main(["install", "--prefix", str(place)]) == 0
        assert main(["uninstall", "--prefix", str(place)]) == 0
        assert tree(tmp_path) == before
    assert main(["uninstall", "--prefix", str(theirs)]) == 1
    assert f"nothing is installed in {theirs}" in capsys.readouterr().err


def test_uninstall_leaves_what_came_later(prefix):
    (prefix / "ascend-toolkit" / "mine").write_text("mine")
    link = prefix / "nnae" / "latest"
    link.unlink()
    link.symlink_to("/elsewhere")
    assert install.uninstall(prefix) == (prefix, len(install.LINKS) - 1)
    assert tree(prefix) == {
        "ascend-toolkit": "", "ascend-toolkit/mine": "mine", "nnae": "", "nnae/latest": "/elsewhere"
    }  # fmt: skip


@pytest.mark.parametrize("theirs", [
    "ascend-toolkit/8.0.RC2/lib64/libascendcl.so", "nnae/set_env.sh", "driver/version.info", "cann-8.5.0/set_env.sh",
    "nnal/atb/set_env.sh",
])  # fmt: skip
def test_a_real_installation_is_left_alone(tmp_path, theirs, capsys):
    (tmp_path / theirs).parent.mkdir(parents=True)
    (tmp_path / theirs).write_text("theirs")
    before = tree(tmp_path)
    assert main(["install", "--prefix", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / theirs.split("/")[0]) in said and "holds a CANN installation" in said
    assert tree(tmp_path) == before


def test_a_real_installation_that_came_later_is_left_alone(prefix):
    toolkit = prefix / "ascend-toolkit" / "8.0.RC2"
    toolkit.mkdir()
    with pytest.raises(Refused, match="8.0.RC2 was not made by anycend"):
        install.install(root(), prefix)
    assert (prefix / "ascend-toolkit" / "latest").resolve() == root().resolve()


def test_another_environments_links_are_replaced(prefix, tmp_path):
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    for name in ("set_env.sh", "bin/msnpureport"):
        (other / name).touch()
    install.install(other, prefix)
    assert (prefix / "ascend-toolkit" / "latest").resolve() == other
    shutil.rmtree(other)  # an environment that is gone
    install.install(root(), prefix)
    assert (prefix / "ascend-toolkit" / "latest").resolve() == root().resolve()


def test_what_cannot_be_written_or_read_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["install", "--prefix", str(tmp_path / "file" / "Ascend")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
    (tmp_path / install.RECORD).write_text("no record")
    for verb in ("install", "uninstall"):
        assert main([verb, "--prefix", str(tmp_path)]) == 1
        assert f"{tmp_path / install.RECORD} cannot be read" in capsys.readouterr().err


def test_the_documents_source_lines(seeds, prefix):
    (quick,) = documents_lines(seeds, "002", r"^source /usr/local/Ascend")
    (dotted,) = documents_lines(seeds, "002", r"^\. /usr/local/Ascend")
    (platform,) = documents_lines(seeds, "004", r"^source /opt/Ascend")
    for line in (quick, dotted, platform.replace("/opt/Ascend", DEFAULT)):
        said = bash(f"{line.replace(DEFAULT, str(prefix))}\necho $ASCEND_HOME_PATH; npu-smi info -l")
        home, rest = said.split("\n", 1)
        assert Path(home).samefile(root()) and "Total Count" in rest


def test_the_documents_environment_script_finds_the_default_folder(seeds, prefix):
    """Without an argument and without /etc/Ascend/ascend_cann_install.info it looks in /usr/local/Ascend/."""
    blocks = document.blocks(document.read(seeds, "002"), "shell")
    (script,) = [block for block in blocks if "ascend_cann_install.info" in block]
    script = script.replace(DEFAULT, str(prefix)).replace("/etc/Ascend/", f"{prefix}/no-such/")
    home, level, event = bash(
        f"{script}\necho $ASCEND_HOME_PATH $ASCEND_GLOBAL_LOG_LEVEL $ASCEND_GLOBAL_EVENT_ENABLE"
    ).split()
    assert Path(home).samefile(root()) and (level, event) == ("3", "0")
    shutil.rmtree(prefix / "ascend-toolkit")  # the script's other branch
    assert Path(bash(f"{script}\necho $ASCEND_HOME_PATH").strip()).samefile(root())


def test_the_documents_migration_lines(seeds, prefix, tmp_path):
    """cd to the tool, ./pytorch_gpu2npu.sh, and the folder on PYTHONPATH."""
    (enter,) = documents_lines(seeds, "004", r"^cd /opt/Ascend")
    (export,) = documents_lines(seeds, "004", r"^export PYTHONPATH=/opt/Ascend")
    enter, export = (line.replace("/opt/Ascend", str(prefix)) for line in (enter, export))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text('import torch\nx = torch.ones(2).to("cuda:0")\n')
    bash(f"{enter}\n./pytorch_gpu2npu.sh -i {tmp_path}/scripts -o {tmp_path} -v 2.1.0")
    assert '"npu:0"' in (tmp_path / "scripts_msft" / "train.py").read_text()
    code = "import transfer_to_npu, torch; print(torch.ones(1).cuda().device); "
    code += "from torch_npu.contrib import transfer_to_npu"
    assert bash(f"{export}\npython3 -W ignore -c '{code}'").strip() == "npu:0"


def test_sourcing_our_own_file_is_no_reason_to_warn(prefix, tmp_path):
    """Neither of this environment's root nor of another's, which a shell has sourced."""
    other = tmp_path / "other"
    shutil.copytree(root(), other, symlinks=True, ignore=shutil.ignore_patterns("include"))
    for place in (f"{prefix}/ascend-toolkit", other):
        code = "import torch, torch_npu; torch.ones(2).npu(); print(torch_npu._C._cann_root()[1])"
        assert bash(f'. {place}/set_env.sh\npython3 -W always -c "{code}"').split() == ["True"]


@pytest.mark.parametrize("folder", ["", f"{os.uname().machine}-linux"])
def test_install_info(prefix, folder):
    text = (prefix / "ascend-toolkit/latest" / folder / "ascend_toolkit_install.info").read_text()
    assert re.search(r"^version=\d+\.\d+\.\d+$", text, re.M)


# --- completion ---
COMPLETE = """
COMP_WORDS=(anycend %s)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_anycend
echo "${COMPREPLY[@]}"
"""


# What zsh's own functions would be given.
COMPLETE_ZSH = """
compdef() {{ : }}
compadd() {{ shift; print -l -- ${{(M)@:#$PREFIX*}} }}
_describe() {{ local -a names=(${{${{(@P)2}}%%:*}}); print -l -- ${{(M)names:#$PREFIX*}} }}
_files() {{ : }}
_normal() {{ print normal $words $CURRENT }}
{script}
words=(anycend {typed}) CURRENT=$#words PREFIX=$words[-1]
_anycend
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("typed, offered", [
    ("doct", "doctor"), ("un", "uninstall"), ("--v", "--version"), ("install --p", "--prefix"),
    ("completion z", "zsh"), ("preflight --ru", "--rule"), ("run -- python tr", "normal python tr 2"),
])  # fmt: skip
def test_completion_of_zsh(typed, offered, capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    script = COMPLETE_ZSH.format(script=capsys.readouterr().out, typed=typed)
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.split(), done.stderr) == (offered.split(), "")


@pytest.mark.parametrize("typed, offered", [
    ("doct", "doctor"), ("un", "uninstall"), ("--v", "--version"), ("install --p", "--prefix"),
    ("completion b", "bash"), ("preflight --ru", "--rule"), ("run -- printen", "printenv"),
])  # fmt: skip
def test_completion(typed, offered, capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out + COMPLETE % typed
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (set(done.stdout.split()), done.stderr) == ({offered}, "")
