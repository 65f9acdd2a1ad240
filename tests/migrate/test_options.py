"""migrate/src/options.cpp and main.cpp: the command line and the exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

SCRIPT = "import torch\nx = torch.zeros(1, device='cuda')\ntorch.cuda.comm.gather([x])\n"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "in" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-i", "in"],
        ["-i", "in", "-o", "out", "-v", "1.10"],
        ["-i", "in", "-o", "out", "-v", "new"],
        ["-i", "in", "-o", "out", "--jobs", "0"],
        ["-i", "in", "-o", "out", "--report", "pdf"],
        ["-i", "in", "-o", "out", "--nonsense"],
        ["-i", "in", "-o"],
        ["-i", "in", "-o", "out", "distributed"],
        ["-i", "in", "--in-place", "--check"],
        ["-i", "in", "--in-place", "-s"],
        ["analyse", "-i", "in", "--check"],
    ],
    ids=" ".join,
)
def test_usage_errors_are_2(run, script, arguments):
    done = run(*arguments, code=2)
    assert done.stderr.startswith(b"pytorch_gpu2npu: ") and done.stdout == b""


@pytest.mark.parametrize("version", ["9.9", "1.14", "2.14.0", "1.10", "3.0"])
def test_a_version_that_is_none_names_those_there_are(run, script, version):
    done = run("-i", "in", "-o", "out", "-v", version, code=2)
    assert f"-v needs a version of PyTorch, 1.11 to 1.13 or 2.0 to 2.13, not {version}\n" in done.stderr.decode()


def test_the_newest_version_is_that_of_the_newest_list(run, script, root):
    head = (root / "migrate" / "data" / "support.tsv").read_text(encoding="utf-8").splitlines()[0]
    newest = head.split("\t")[-1]
    run("-i", "in", "--diff", "-v", newest)
    assert f"1.11 to {newest} (default {newest}.0)" in run("-h").stdout.decode()


def test_help_names_every_option_of_the_documents(run):
    text = run("-h").stdout.decode()
    for option in ("-i", "-o", "-v", "-s", "-m", "distributed", "-t", "--check", "--diff", "--in-place", "--rules"):
        assert option in text


def test_a_missing_input_is_1(run):
    assert b"nowhere" in run("-i", "nowhere", "-o", "out", code=1).stderr


def test_check_is_3_then_0(run, script):
    run("-i", script, "--check", code=3)
    assert script.read_text() == SCRIPT
    run("-i", script, "--in-place")
    run("-i", script, "--check", code=0)


def test_strict_is_4(run, script):
    run("-i", script, "-o", "out", "--strict", code=4)


def test_an_existing_result_is_replaced_only_with_yes(run, script, tmp_path):
    run("-i", "in", "-o", "out")
    (tmp_path / "out" / "in_msft" / "mine.txt").write_text("kept until --yes")
    assert b"--yes" in run("-i", "in", "-o", "out", code=1).stderr
    assert (tmp_path / "out" / "in_msft" / "mine.txt").exists()
    run("-i", "in", "-o", "out", "--yes")
    assert not (tmp_path / "out" / "in_msft" / "mine.txt").exists()


def on_a_terminal(tool, arguments: list[str], answer: bytes, folder) -> tuple[int, bytes]:
    """Exit code, and what the terminal shows."""
    ours, theirs = os.openpty()
    process = subprocess.Popen([tool, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder)
    os.close(theirs)
    os.write(ours, answer)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(timeout=60), shown


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_terminal_is_asked_and_shows_progress(tool, run, script, tmp_path, answer, code):
    run("-i", "in", "-o", "out")
    kept = tmp_path / "out" / "in_msft" / "kept"
    kept.write_text("")
    result, shown = on_a_terminal(tool, ["-i", "in", "-o", "out"], answer, tmp_path)
    assert result == code
    assert b"Replace it? [y/N]" in shown and b"1/1 files" in shown
    assert kept.exists() == (code == 1)


def test_a_folder_that_is_no_result_is_never_replaced(run, script, tmp_path):
    folder = tmp_path / "out" / "in_msft"
    folder.mkdir(parents=True)
    (folder / "precious").write_text("x")
    run("-i", "in", "-o", "out", "--yes", code=1)
    assert (folder / "precious").read_text() == "x"


def test_json_is_one_object_and_nothing_else(run, script):
    report = json.loads(run("-i", script, "--check", "--json", code=3).stdout)
    assert report["changed"] == ["train.py"] and report["exit_code"] == 3
    assert [row["name"] for row in report["unsupported"]] == ["torch.cuda.comm.gather"]
    assert {row["line"] for row in report["changes"]} == {1, 2}


@pytest.mark.parametrize("command", [["patch", "-p1"], ["git", "apply", "-p1"]], ids=["patch", "git apply"])
@pytest.mark.parametrize(
    "content",
    [
        SCRIPT.encode(),
        b"import torch\ntry:\n    x.cuda()\nexcept E:\n    pass\ny.cuda()\n" + b"pass\n" * 9 + b"z.cuda()\n",
        b"import torch\nx = 1\ny = 'cuda'",
        b"import torch\nx = 'cuda'\ny = 1",
        b"\xef\xbb\xbfimport torch\r\nx = 'cuda'\r\n",
        "# coding: gbk\nimport torch\nx = 'cuda'  # 日本中文\n".encode("gbk"),
        b"x = 'cuda'\n",
    ],
    ids=["script", "neighbours", "last line open", "context open", "crlf", "gbk", "one line"],
)
def test_diff_can_be_applied(run, tmp_path, command, content):
    if shutil.which(command[0]) is None:
        pytest.skip(f"the {command[0]} command is not here")
    script = tmp_path / "in" / "train.py"
    script.parent.mkdir()
    script.write_bytes(content)
    diff = run("-i", "in", "--diff").stdout
    no_clone = os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    subprocess.run(command, input=diff, check=True, capture_output=True, cwd=tmp_path / "in", env=no_clone)
    patched = script.read_bytes()
    script.write_bytes(content)
    run("-i", "in", "--in-place")
    assert patched == script.read_bytes() != content


def test_jobs_do_not_change_the_result(run, tmp_path):
    for index in range(40):
        path = tmp_path / "in" / f"d{index % 5}" / f"f{index}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SCRIPT.replace("1", str(index)))
    one = json.loads(run("-i", "in", "--check", "--json", "--jobs", 1, code=3).stdout)
    many = json.loads(run("-i", "in", "--check", "--json", "--jobs", 8, code=3).stdout)
    one.pop("seconds"), many.pop("seconds")
    assert one == many and len(one["changed"]) == 40


def test_rules_of_ones_own(run, tmp_path):
    (tmp_path / "in").mkdir()
    script = tmp_path / "in" / "a.py"
    script.write_text("import torch\nimport ops\nops.gpu_nms(1)\nx = 'gpu_mode'\nmylib.cuda()\n")
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"names": {"ops.gpu_nms": "ops.npu_nms"}, "strings": {"gpu_mode": "npu_mode"}}))
    script.write_text("import torch\nimport ops\nops.gpu_nms(1)\nx = 'gpu_mode'\ny.cuda()\n")
    run("-i", "in", "--in-place", "--rules", rules)
    assert script.read_text() == (
        "import torch_npu\nimport torch\nimport ops\nops.npu_nms(1)\nx = 'npu_mode'\ny.npu()\n"
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"names": 1}', '{"other": {}}', '{"names": {"a": 1}}', '"' + "\\u12"])
def test_wrong_rules_are_a_failure_that_names_the_file(run, script, tmp_path, text):
    (tmp_path / "rules.json").write_text(text)
    done = run("-i", script, "--check", "--rules", "rules.json", code=1)
    assert b"rules.json" in done.stderr
