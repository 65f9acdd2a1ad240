"""Command lines of the generators and of tools/abi: what they do not take is told in a sentence, and writes nothing."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "codegen"))


@pytest.mark.parametrize("tool", ["aten", "ge", "npu", "opapi"])
def test_a_generator_takes_no_option_for_a_folder(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(tool)
    monkeypatch.setattr(sys, "argv", [tool, "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    forms = capsys.readouterr().out
    assert forms.startswith(f"python tools/codegen/{tool}.py OUT_DIR")
    for arguments in ((), ("--show",), ("--show", "a", "b"), ("-x",), ("--nosuch", "a"), ("a", "b", "c")):
        monkeypatch.setattr(sys, "argv", [tool, *arguments])
        with pytest.raises(SystemExit) as told:
            module.main()
        assert f"{told.value}\n" == f"{' '.join(arguments) or 'no argument'}: what it takes is\n{forms}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("import_facts", ["nowhere"], "nowhere has no acl.tsv, dlsym.tsv, "),
        ("import_types", ["nowhere.tsv", "neither.tsv"], "no file: nowhere.tsv, neither.tsv"),
        ("status", ["nonsense"], "no library nonsense in cann/abi; there are acl_op_compiler, "),
    ],
)
def test_what_is_not_there_is_named(tool, arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [tool, *arguments])
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(f"tools.abi.{tool}").main()
    assert f"error: {said}" in capsys.readouterr().err
