"""torch_npu/contrib/_cuda/rewrite.py: modules rewritten in memory, for scripts that compare names."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.migrate.toolbox import table, unescape, unescape_all
from torch_npu.contrib import transfer_to_npu
from torch_npu.contrib._cuda import rewrite

MODULE = '''"""Says "cuda" to people."""
import torch
from torch import distributed as dist
KEYS = {"cuda": 1}
def on_accelerator(x):
    return x.device.type == "cuda"
def uses_nccl(backend):
    return backend == "nccl"
def here():
    return torch.ones(2, device="cuda:1")
def fail():
    raise ValueError("cuda")  # line 12
'''


@pytest.fixture(autouse=True)
def needs_the_library() -> None:
    try:
        rewrite._library()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package and module that can be imported."""
    (tmp_path / "gpu_project").mkdir()
    (tmp_path / "gpu_project" / "__init__.py").write_text("")
    (tmp_path / "gpu_project" / "work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "gpu_project.work"
    rewrite.stop()
    for name in [name for name in sys.modules if name.startswith("gpu_project")]:
        del sys.modules[name]


@pytest.mark.parametrize("packages", [(), ("gpu_project",)], ids=["all that is not installed", "named"])
def test_comparisons_mean_the_npu(module: str, packages: tuple[str, ...]) -> None:
    transfer_to_npu.rewrite_modules(*packages)
    work = importlib.import_module(module)
    assert work.on_accelerator(torch.ones(1).cuda()) and not work.on_accelerator(torch.ones(1))
    assert work.uses_nccl("hccl") and not work.uses_nccl("gloo")
    assert work.here().device == torch.device("npu", 1)
    assert work.KEYS == {"cuda": 1} and work.__doc__ == 'Says "cuda" to people.'


def test_nothing_is_rewritten_unasked(module: str) -> None:
    assert rewrite.active() is None
    assert not importlib.import_module(module).on_accelerator(torch.ones(1).cuda())


def test_other_packages_stay(module: str) -> None:
    transfer_to_npu.rewrite_modules("another_project")
    assert not importlib.import_module(module).uses_nccl("hccl")


def test_installed_modules_stay(module: str) -> None:
    transfer_to_npu.rewrite_modules()
    finder = rewrite.active()
    assert finder is not None
    assert finder.find_spec("torch.cuda.nccl", torch.cuda.__path__) is None
    assert finder.find_spec("json.tool", importlib.import_module("json").__path__) is None
    assert finder.find_spec("pytest") is None
    assert finder.find_spec("gpu_project") is not None


def test_line_numbers_stay(module: str) -> None:
    transfer_to_npu.rewrite_modules()
    work = importlib.import_module(module)
    with pytest.raises(ValueError, match="cuda") as caught:
        work.fail()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.lineno, last.line) == (12, 'raise ValueError("cuda")  # line 12')


def test_no_file_is_written(module: str, tmp_path: Path) -> None:
    transfer_to_npu.rewrite_modules()
    work = importlib.import_module(module)
    assert Path(work.__file__).read_text() == MODULE
    assert [path for path in tmp_path.rglob("*.pyc")] == []


def test_disabled_takes_it_away_for_a_while(module: str) -> None:
    transfer_to_npu.rewrite_modules()
    with transfer_to_npu.disabled():
        assert rewrite.active() is None
    assert rewrite.active() is not None
    transfer_to_npu.disable()
    assert rewrite.active() is None


def test_a_package_that_is_imported_already_is_an_error(module: str) -> None:
    importlib.import_module(module)
    with pytest.raises(RuntimeError, match="gpu_project is imported already"):
        transfer_to_npu.rewrite_modules("gpu_project")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\nx.cuda()\n", "import torch_npu; import torch\nx.npu()\n"),
        ("if x:\n    import torch\n    y = 'cuda'\n", "if x:\n    import torch_npu; import torch\n    y = 'npu'\n"),
        ("from torch.cuda import comm, device_count\n", None),
        ("import amp_C\nx = 'cuda'\n", "pass\nx = 'npu'\n"),
        ("# coding: gbk\nimport torch\nx = 'cuda'\n", "# coding: gbk\nimport torch_npu; import torch\nx = 'npu'\n"),
        ("x = (\n", "x = (\n"),
        ("", ""),
        ("x = 'cuda\n", "x = 'cuda\n"),
    ],
)
def test_lines_keep_their_place(before: str, after: str | None) -> None:
    text = rewrite.rewritten(before.encode(), "m.py").decode()
    assert text.count("\n") == before.count("\n")
    if after is not None and "amp_C" not in before:
        assert text == after


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def on_gpu(x):\n    return x.device.type == 'cuda'\n")
    (tmp_path / "train.py").write_text(
        "import sys\nimport torch\nimport helper\n"
        "if __name__ == '__main__':\n"
        "    x = torch.ones(2).cuda()\n"
        "    print(sys.argv[1:], x.device.type == 'cuda', helper.on_gpu(x), __file__)\n"
    )
    command = ["-m", "torch_npu.contrib.transfer_to_npu", "train.py", "--epochs", "2"]
    done = forked.run(command, cwd=tmp_path, env=os.environ | {"PYTHONSAFEPATH": ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['--epochs', '2'] True True {tmp_path / 'train.py'}\n"


def test_no_script_is_a_usage_error(tmp_path: Path) -> None:
    done = forked.run(["-m", "torch_npu.contrib.transfer_to_npu"], cwd=tmp_path)
    assert done.returncode == 1 and "usage: python -m" in done.stderr


def parses(source: bytes) -> bool:
    try:
        compile(source, "case.py", "exec", dont_inherit=True, flags=ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


def test_the_tools_cases_keep_their_lines_and_parse(root: Path) -> None:
    changed = 0
    for name in ("before_after.tsv", "golden.tsv"):
        for row in table(root / "tests" / "migrate" / "cases" / name):
            before = (unescape if name == "before_after.tsv" else unescape_all)(row["before"]).encode()
            after = rewrite.rewritten(before, "case.py")
            changed += after != before
            assert not parses(before) or parses(after), after
            spread = b"\\\n" in before or b"(torch\n" in before  # a name over several lines becomes one
            assert spread or after.count(b"\n") == before.count(b"\n"), after
    assert changed > 200
