"""migrate/src/output_tree.cpp: the folder of the documents, and what happens to everything that is no Python file."""

from __future__ import annotations

import csv
import os
import re

import pytest


@pytest.fixture
def tree(tmp_path):
    """in/ with a package, data, links and files that cannot be migrated."""
    root = tmp_path / "in"
    (root / "pkg").mkdir(parents=True)
    (root / "train.py").write_text("import torch\nm.cuda()\ntorch.cuda.comm.gather(x)\ntorch.cuda.brand_new()\n")
    (root / "pkg" / "__init__.py").write_text("")
    (root / "pkg" / "old.py").write_text("x = 'cuda'\nprint 'x'\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "数据 集.py").write_text("d = 'cuda'\n", encoding="utf-8")
    (root / "link.py").symlink_to("train.py")
    (root / "outside.py").symlink_to("/etc/hostname")
    (root / "kernel.cu").write_text(
        "__global__ void add(float* a) {}\n__global__ void __launch_bounds__(64) mul() {}\n"
    )
    return root


@pytest.fixture
def result(run, tree, tmp_path):
    run("-i", "in", "-o", "out")
    return tmp_path / "out" / "in_msft"


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_the_folder_has_what_the_documents_list(result):
    names = {path.name for path in result.iterdir()}
    assert {
        "msFmkTranspltlog.txt",
        "cuda_op_list.csv",
        "unknown_api.csv",
        "unsupported_api.csv",
        "change_list.csv",
    } <= names
    assert "run_distributed_npu.sh" not in names and "ascend_function" not in names


def test_the_input_is_not_touched(result, tree):
    assert (tree / "train.py").read_text().startswith("import torch\nm.cuda()")


def test_files_keep_their_place_content_and_mode(result):
    assert (result / "train.py").read_text().startswith("import torch_npu\nimport torch\nm.npu()\n")
    assert (result / "data.bin").read_bytes() == bytes(range(256))
    assert os.access(result / "run.sh", os.X_OK)
    assert (result / "pkg" / "__init__.py").read_text() == ""
    assert (result / "数据 集.py").read_text(encoding="utf-8") == "d = 'npu'\n"


def test_links_inside_stay_links_and_others_are_left_out(result):
    assert os.readlink(result / "link.py") == "train.py"
    assert not os.path.lexists(result / "outside.py")
    assert "outside.py: a link out of the input" in (result / "msFmkTranspltlog.txt").read_text(encoding="utf-8")


def test_what_is_not_migrated_is_copied_and_logged_with_its_line(result):
    assert (result / "pkg" / "old.py").read_text() == "x = 'cuda'\nprint 'x'\n"
    log = (result / "msFmkTranspltlog.txt").read_text(encoding="utf-8")
    assert "pkg/old.py:2: copied as it is: Python 2: a print statement" in log


def test_lists(result):
    assert rows(result / "change_list.csv")[0] == ["File", "Start Line", "End Line", "Operation Type", "Message"]
    assert ["train.py", "2", "2", "modify", "change cuda to npu"] in rows(result / "change_list.csv")
    assert rows(result / "unsupported_api.csv")[0] == ["File", "Start Line", "End Line", "OP", "Tips"]
    assert [row[3] for row in rows(result / "unsupported_api.csv")[1:]] == ["torch.cuda.comm.gather"]
    assert [row[3] for row in rows(result / "unknown_api.csv")[1:]] == ["torch.cuda.brand_new"]
    assert [row[3] for row in rows(result / "cuda_op_list.csv")[1:]] == ["add", "mul"]


def test_cells_that_a_spreadsheet_would_run_are_guarded(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "=cmd().py").write_text("d = 'cuda'\n")
    run("-i", "in", "-o", "out")
    assert rows(tmp_path / "out" / "in_msft" / "change_list.csv")[1][0] == "'=cmd().py"


def test_a_single_file(run, tree, tmp_path):
    run("-i", "in/train.py", "-o", "out")
    assert (tmp_path / "out" / "train_msft" / "train.py").read_text().startswith("import torch_npu")
    assert not (tmp_path / "out" / "train_msft" / "data.bin").exists()


def test_output_inside_the_input(run, tree):
    run("-i", "in", "-o", "in")
    run("-i", "in", "-o", "in", "--yes")
    assert not (tree / "in_msft" / "in_msft").exists()


def test_no_half_result_is_left(run, tree, tmp_path):
    (tmp_path / "file").write_text("")
    run("-i", "in", "-o", "file/below", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "in"]


def test_an_unreadable_file_is_listed(run, tree):
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    (tree / "secret.py").chmod(0)
    assert b"secret.py" in run("-i", "in", "-o", "out").stdout


def test_the_log_is_cut_into_at_most_ten_files_of_one_megabyte(run, tmp_path):
    (tmp_path / "in").mkdir()
    body = "import torch\n" + "torch.cuda.synchronize(); x = torch.zeros(1, device='cuda')\n" * 60000
    (tmp_path / "in" / "big.py").write_text(body)
    run("-i", "in", "-o", "out")
    logs = sorted((tmp_path / "out" / "in_msft").glob("msFmkTranspltlog.txt*"))
    assert 2 <= len(logs) <= 10
    assert all(path.stat().st_size <= 1 << 20 for path in logs)
    last = (tmp_path / "out" / "in_msft" / "msFmkTranspltlog.txt").read_text().splitlines()[-1]
    assert re.search(r"\[INFO\] done: 1 of 1 files changed$", last)


def test_analyse_writes_lists_only(run, tree, tmp_path):
    run("analyse", "-i", "in", "-o", "out")
    names = {path.name for path in (tmp_path / "out" / "in_analysis").iterdir()}
    assert {"api_performance_advice.csv", "api_precision_advice.csv", "third_party_libraries.csv"} <= names
    assert "train.py" not in names and "change_list.csv" not in names


def test_limits_are_of_operators_alone(run, tmp_path):
    """A dataset or a hook has none; a module has those of its function."""
    (tmp_path / "in").mkdir()
    names = ["nn.Linear", "utils.data.TensorDataset", "nn.FractionalMaxPool2d", "compiler.disable", "FloatStorage"]
    (tmp_path / "in" / "m.py").write_text("import torch\n" + "".join(f"torch.{name}(1)\n" for name in names))
    run("analyse", "-i", "in", "-o", "out")
    found = rows(tmp_path / "out" / "in_analysis" / "limited_api.csv")
    text = "computed on the CPU with copies, or in part"
    assert [row[3:] for row in found[1:]] == [["torch.nn.FractionalMaxPool2d", text]]


def test_analyse_reads_files_without_a_cuda_word(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.py").write_text(
        "import torch, xformers\ny = torch.igamma(x, x)\ntorch.ao.nn.quantized.GRUCell(1, 1)\n"
    )
    (tmp_path / "in" / "old.py").write_text("print 'x'\n")
    run("analyse", "-i", "in", "-o", "out")
    folder = tmp_path / "out" / "in_analysis"
    assert [row[1:4] for row in rows(folder / "limited_api.csv")[1:]] == [["2", "2", "torch.igamma"]]
    assert [row[3] for row in rows(folder / "third_party_libraries.csv")[1:]] == ["xformers"]
    assert "old.py:1: not analysed: Python 2: a print statement" in (folder / "msFmkTranspltlog.txt").read_text()


@pytest.mark.parametrize("output", [".", "./", "out", "out/", "out/.."])
def test_the_result_is_named_without_doubled_slashes(run, tree, tmp_path, output):
    (tmp_path / "out").mkdir(exist_ok=True)
    said = run("-i", "in", "-o", output).stdout.decode()
    place = tmp_path / "out" if output.startswith("out") and ".." not in output else tmp_path
    assert said.splitlines()[-1] == f"result: {place}/in_msft" and (place / "in_msft").is_dir()


@pytest.mark.parametrize(
    "arguments", [["analyse", "-o", "out"], ["--diff"], ["--check", "--diff"], ["--check", "-o", "out"]]
)
def test_where_nothing_is_migrated_files_would_change(run, tmp_path, arguments):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text("x = torch.zeros(1, device='cuda')\n")
    (tmp_path / "in" / "old.py").write_text("print 'cuda'\n")
    done = run(arguments[0], "-i", "in", *arguments[1:], code=3 if "--check" in arguments else 0)
    said = (done.stderr if "--diff" in arguments else done.stdout).decode()
    assert "1 would change, 1 would not be migrated" in said
    assert "1 changed, 1 copied as they are" in run("-i", "in", "-o", "out").stdout.decode()


def test_the_report_is_one_file_with_everything_escaped(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text("x = 'cuda'  # <script>alert(1)</script> & @LISTS@\n")
    run("-i", "in", "-o", "out", "--report", "html")
    page = (tmp_path / "out" / "in_msft" / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; @LISTS@" in page and "<script>alert" not in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "files changed" in page and 'class="old"' in page


def test_the_report_opens_in_a_browser(run, tree, tmp_path):
    import shutil
    import subprocess

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    run("-i", "in", "-o", "out", "--report", "html")
    page = tmp_path / "out" / "in_msft" / "report.html"
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "torch.cuda.comm.gather" in done.stdout and "train.py" in done.stdout
