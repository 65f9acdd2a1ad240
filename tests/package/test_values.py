"""Values of variables by the column `values` of docs/env.yaml (command/values.py), and what `anycend doctor` says."""

from __future__ import annotations

import socket
import sys

import pytest
from anycend import doctor, trial, values

from tools.dev import gen_docs

ROWS = {row["name"]: row["values"] for row in gen_docs.env_rows() if "values" in row}


def wrong(name: str, value: str, **others: str) -> tuple[str, str] | None:
    """What the doctor says behind the variable, and the remedy; None where it is right."""
    (finding,) = [f for f in doctor.check_variables({name: value, **others}) if f.what.startswith(f"{name}=")]
    return None if finding.ok else (finding.what.removeprefix(f"{name}="), finding.remedy)


def test_the_command_has_the_tables_rows():
    assert values.table() == ROWS


def test_each_row_is_one_that_is_understood():
    for name, kind in ROWS.items():
        for choice in () if kind in values.KINDS else kind.split(" | "):
            word, _, needed = choice.partition(" with ")
            assert values.RANGE.fullmatch(word) or word.isalnum(), (name, choice)
            assert not needed or needed in doctor.known_variables()


@pytest.mark.parametrize("name", [name for name, kind in ROWS.items() if kind not in values.KINDS])
def test_choices_and_ranges_of_every_variable(name):
    others = dict.fromkeys(part.split()[2] for part in ROWS[name].split(" | ") if " with " in part)
    for choice in ROWS[name].split(" | "):
        found = values.RANGE.fullmatch(choice.split(" with ")[0])
        for right in (found[1], found[2] or "7") if found else (choice.split()[0],):
            if name != "ASCEND_GLOBAL_EVENT_ENABLE":  # of 1, a note
                assert wrong(name, right, **dict.fromkeys(others, __file__)) is None
    for value in ("banana", "-2", "9" * 30, "1.5"):
        what, remedy = wrong(name, value)
        assert (
            what.startswith(f"{value} is refused") and remedy.startswith("give ") and remedy.endswith(", or unset it")
        )


@pytest.mark.parametrize("name, value, what", [
    ("HCCL_IF_IP", "banana", "is no address"),
    ("HCCL_IF_IP", "192.0.2.7", "is no address of this host"),
    ("HCCL_IF_IP", "127.0.0.1", None),
    ("HCCL_SOCKET_IFNAME", "nope9", "fits no interface of this host that is up"),
    ("HCCL_SOCKET_IFNAME", "=l", "fits no interface of this host that is up"),
    ("HCCL_SOCKET_IFNAME", "l", None),
    ("HCCL_SOCKET_IFNAME", "=lo", None),
    ("HCCL_SOCKET_IFNAME", "^" + ",".join(n for _, n in socket.if_nameindex()),
     "fits no interface of this host that is up"),
    ("HCCL_WHITELIST_DISABLE", "0", "needs HCCL_WHITELIST_FILE, too"),
    ("HCCL_WHITELIST_FILE", "/nowhere", "is no file"),
    ("HCCL_WHITELIST_FILE", "/tmp", "is a folder"),
    ("ASCEND_CUSTOM_OPP_PATH", "/nowhere:/tmp", "names no folder: /nowhere"),
    ("ASCEND_CUSTOM_OPP_PATH", "/tmp:/usr", None),
    ("ASCEND_PROCESS_LOG_PATH", "/tmp/not/yet", None),
    ("ASCEND_PROCESS_LOG_PATH", "/etc/passwd/log", "is no folder: /etc/passwd is a file"),
])  # fmt: skip
def test_a_kind(name, value, what):
    assert wrong(name, value) == (None if what is None else (f"{value} {what}", wrong(name, value)[1]))


def test_a_secret_is_judged_and_not_shown(tmp_path):
    assert wrong("ANYCEND_HCCL_SECRET", "short")[0] == "*** has 5 characters"
    (finding,) = doctor.check_variables({"ANYCEND_HCCL_SECRET": "a text of 16 or more"})
    assert finding == (True, "ANYCEND_HCCL_SECRET=***", "")
    file = tmp_path / "secret"
    file.write_text("short\n")
    file.chmod(0o644)
    name, said = "ANYCEND_HCCL_SECRET_FILE", f"{file} can be read by others than its owner"
    assert wrong(name, str(file)) == (said, f"chmod 600 {file}")
    file.chmod(0o600)
    assert wrong(name, str(file))[0] == f"{file} holds 5 characters"
    file.write_text("a text of 16 or more\n")
    assert wrong(name, str(file)) is None


def test_the_trial_tells_the_whole_chain(monkeypatch):
    monkeypatch.setenv("TORCH_TRANSFER_TO_NPU", "yes")
    (finding,) = doctor.check_trial(300)
    assert "Failed to load the backend extension: torch_npu" in finding.what
    assert finding.what.endswith("; because of ValueError: npu: TORCH_TRANSFER_TO_NPU=yes is neither 0 nor 1")


def test_a_chain_is_told_from_the_last_to_the_first():
    def nested(depth: int) -> None:
        try:
            if not depth:
                raise KeyError("first")
            nested(depth - 1)
        except Exception as error:
            raise ValueError(f"at {depth}") from error

    whole = ["ValueError: at 5", "ValueError: at 1", "ValueError: at 0", "KeyError: 'first'"]
    for depth, told in ((0, whole[2:]), (5, whole)):
        with pytest.raises(ValueError) as raised:
            nested(depth)
        assert trial.chain(raised.value) == told
    try:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise OSError("shown") from None
    except OSError as error:
        assert trial.chain(error) == ["OSError: shown"]


def test_a_long_message_is_shortened():
    said = doctor.because(['{"failed": ["RuntimeError: ' + "word " * 1000 + '", "KeyError: 1"]}'], "")
    assert len(said) < 600 and said.endswith(" ...; because of KeyError: 1")
    assert doctor.because(["doing: add"], "a\nlast line\n\n") == "last line"


@pytest.mark.parametrize("variable", ["INF_NAN_MODE_ENABLE=0", "NPU_ASD_ENABLE=1"])
def test_what_import_warns_of_is_a_note(variable, monkeypatch):
    monkeypatch.setenv(*variable.split("="))
    notes = [finding for finding in doctor.check_trial(300) if finding.ok is None]
    assert len(notes) == 1 and notes[0].what.startswith(f"{variable} has no effect")


def test_the_trial_runs_where_the_user_is(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "[[true, \\"in $PWD\\", \\"\\"]]"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.chdir(tmp_path)
    (finding,) = doctor.check_trial(60)
    assert finding.what == f"in {tmp_path.resolve()}"


def test_a_step_that_the_system_refuses_is_a_finding(monkeypatch):
    def refuse():
        raise FileNotFoundError(2, "No such file or directory", "/a/variables.txt")

    for name in ("check_packages", "check_root", "check_limits", "check_ports"):
        monkeypatch.setattr(doctor, name, lambda: iter(()))
    monkeypatch.setattr(doctor, "known_variables", refuse)
    monkeypatch.setattr(doctor, "check_trial", lambda seconds: iter([doctor.Finding(True, "a + b")]))
    assert list(doctor.check(60)) == [
        (False, "/a/variables.txt: No such file or directory", "reinstall this distribution"), (True, "a + b", ""),
    ]  # fmt: skip
