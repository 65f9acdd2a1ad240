"""The command's edges: output that is closed, broken, full or ASCII, SIGINT, arguments that cannot be, OSErrors."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from anycend import arguments, failure
from anycend.__main__ import main

COMMAND = f"{shlex.quote(sys.executable)} -m anycend"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CONF = "address_0=127.0.0.1\nnetmask_0=255.0.0.0\n"
VERBS = ("root", "docs", "docs guide/commands.zh", "doctor", "preflight", "completion bash", "--help", "install --help")


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess:
    """`anycend` in the line is the command."""
    conf = folder / "hccn.conf"
    conf.write_text(CONF)
    script = f'set -o pipefail; anycend() {{ {COMMAND} "$@"; }}; {line}'
    environment = {**os.environ, "ANYCEND_HCCN_CONF": str(conf), **variables}
    return subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=300)


@pytest.mark.parametrize("verb", VERBS)
def test_an_output_of_another_encoding_is_written(verb, tmp_path):
    for variables in (ASCII, {"PYTHONIOENCODING": "ascii"}):
        done = shell(f"anycend {verb}", tmp_path, **variables)
        assert done.returncode in ((0, 1) if verb == "preflight" else (0,)) and done.stdout.isascii() and done.stdout
        assert done.stderr == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("verb", VERBS[2:6])
def test_a_reader_that_goes_away_ends_it_as_the_signal_would(verb, unbuffered, tmp_path):
    done = shell(f"anycend {verb} | {{ exec 0<&-; sleep 0.1; }}", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_output(verb, tmp_path):
    """What only prints says so; the others' exit code is as ever."""
    done = shell(f"anycend {verb} >&-", tmp_path)
    if verb.split()[0] in ("root", "docs", "completion"):
        assert done.returncode == 1 and done.stderr.startswith(b"anycend: standard output is closed")
    else:
        assert done.returncode == shell(f"anycend {verb} > /dev/null", tmp_path).returncode and done.stderr == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("verb", ["root", "docs", "doctor", "preflight", "completion zsh"])
def test_a_full_disk_is_one_line(verb, unbuffered, tmp_path):
    done = shell(f"anycend {verb} > /dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    line = b"anycend: standard output: No space left on device: make room there\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_the_program_of_run_ends_by_the_signal_as_without_run(tmp_path):
    done = shell("anycend run -- yes | head -1", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (141, b"y\n", b"")


def test_an_interrupt_ends_it_without_a_traceback(tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's jobs ignore it
        f"from anycend.__main__ import main; sys.executable = {str(script)!r}; sys.exit(main(['doctor']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"ok    Python")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


@pytest.mark.parametrize("words, said", [
    ("install --prefix ''", "argument --prefix: the name is empty"),
    ("uninstall --prefix=", "argument --prefix: the name is empty"),
    ("install --prefix ~no-such-user/Ascend", "argument --prefix: ~no-such-user/Ascend: there is no user no-such-user"),
    ("attach --site-packages ''", "argument --site-packages: the name is empty"),
    ("compare -o '' -- true", "argument -o/--output: the name is empty"),
    ("preflight ''", "argument hccn.conf: the name is empty"),
    *[(f"{verb} --timeout={value}", f"argument --timeout: {value} is no number of seconds: give one above 0, up")
      for verb in ("doctor", "preflight") for value in ("0", "-1", "nan", "inf", "1e99", "soon")],
    *[(f"preflight --ranks={value}", f"argument --ranks: {value} is no number of ranks")
      for value in ("0", "-1", "x", "9" * 30)],
])  # fmt: skip
def test_an_argument_that_cannot_be_is_named(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # nothing is written into the clone if it is taken
    with pytest.raises(SystemExit) as end:
        main(shlex.split(words))
    assert end.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["9" * 5000, "9999999999G", "٣", "0", "-1"])
def test_a_limit_that_cannot_be_is_named(limit, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--limit", limit, "--", "true"]) == 1
    assert "is no number of bytes from 1 on" in capsys.readouterr().err


def test_a_path_may_begin_with_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert arguments.path("~/Ascend") == Path("/home/me/Ascend")


@pytest.mark.parametrize(
    "text, number", [("7", 7), (" +7", 7), ("-1", -1), ("-+1", None), ("٣", None), ("9" * 19, None)]
)
def test_a_whole_number(text, number):
    assert arguments.whole(text) == number


def test_a_name_that_is_too_long_is_one_line(capsys):
    for verb in ("install", "uninstall"):
        assert main([verb, "--prefix", "/" + "x" * 300]) == 1
        said = capsys.readouterr().err
        assert (
            said.startswith("anycend: /xxx") and said.count("\n") == 1 and "File name too long: give a shorter" in said
        )


def test_a_working_folder_that_is_gone_is_one_line(tmp_path):
    (tmp_path / "gone").mkdir()
    for verb in ("install --prefix Ascend", "compare -- true"):
        done = shell(f'(cd gone; rmdir "$PWD"; anycend {verb}); mkdir -p gone', tmp_path)
        assert done.stderr.splitlines()[-1] == b"anycend: the working folder is gone: cd to one that is there"


@pytest.mark.parametrize("text, said", [
    (b"address_0=\xff\xfe\n", "is no text: name a hccn.conf"),
    (b"address_x=10.0.0.1\n", "address_x names no device"),
    (b"address_-1=10.0.0.1\n", "address_-1 names no device"),
    (b"address_0=banana\n", "address_0: "),
    (None, "No such file or directory"),
])  # fmt: skip
def test_a_hccn_conf_that_cannot_be_is_named(text, said, tmp_path, monkeypatch, capsys):
    conf = tmp_path / "conf"
    if text is not None:
        conf.write_bytes(text)
    monkeypatch.setenv("ANYCEND_HCCN_CONF", str(conf))
    assert main(["preflight"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"anycend: {conf}") and said in error and error.count("\n") == 1


def test_what_the_system_refuses_has_a_remedy():
    assert failure.one_line(OSError(28, "No space left on device", "/a/b")) == (
        "/a/b: No space left on device: make room there"
    )
    assert failure.one_line(PermissionError(13, "Permission denied", "/a")).endswith("or name another")
    assert (
        failure.one_line(OSError(5, "Input/output error", "/a"), "look there") == "/a: Input/output error: look there"
    )


def test_a_prefix_is_refused_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["install", "--prefix", ""])
    assert list(tmp_path.iterdir()) == []
