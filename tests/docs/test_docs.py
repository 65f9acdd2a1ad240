"""The documentation says what is so: links lead somewhere, commands exist, examples run, tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from tests import forked
from tests.docs import variables
from tests.seeds import document
from tools.dev import check_layers, gen_docs

ROOT = Path(__file__).resolve().parents[2]
SCREEN = 90  # lines a room's README may have
LARGE = 10  # a folder with more sources is a room
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
HEADING = re.compile(r"^#+ (.*)$", re.M)
SPAN = re.compile(r"`([^`\n]+)`")
PRODUCT = ("torch_npu", "softnpu", "migrate")
# What a line of the source documents begins with that is a command.
COMMANDS = set(
    ". ./pytorch_gpu2npu.sh RUN bash cd colossalai conda cp docker export git hccn_tool mkdir npu-smi pip pip3 python3 "
    "source ssh sysctl systemctl torch_npu_run torchrun ufw unzip wget".split()
)
# Pages whose commands and programs are run, each from top to bottom in an empty folder; what they say is printed, is.
RUN = (
    "guide/analysis",
    # Three programs and a job of two ranks: tests/transfer and tests/migrate/test_end_to_end.py have each way.
    pytest.param("guide/adaptation", marks=pytest.mark.full),
    pytest.param(
        "guide/precision", marks=pytest.mark.full
    ),  # whole programs beside the CPU: tests/compare has small ones
    # What waits, what is profiled and which functions are called: core/test_sync_debug, profiler, opapi/test_call_log.
    pytest.param("guide/performance", marks=pytest.mark.full),
    pytest.param(
        "guide/custom_operators", marks=pytest.mark.full
    ),  # four libraries are built: tests/extension has each way
    pytest.param("operator_packages", marks=pytest.mark.full),  # tests/ascendc/test_operator_package.py builds one
    pytest.param("extensions", marks=pytest.mark.full),  # two compilations; tests/extension: test_build.py, build.py
)
# Who a row of docs/env.yaml says reads a variable, and where that is.
TREES = {"plugin": ("torch_npu",), "softnpu": ("softnpu",), "migrate": ("migrate",), "tests": ("tests", "bench"),
         "tools": ("tools",), "build": ("cmake",)}  # fmt: skip
FOREIGN = {
    "RANK_ID",  # ModelArts' name of RANK, in a file that pytorch_gpu2npu gives away
    "CXX",  # the compiler of PyTorch's just-in-time builds; ours looks whether it is bisheng
}


def tracked(*patterns: str) -> list[Path]:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def rooms() -> list[Path]:
    """Rooms as CONTRIBUTING.md defines them."""
    listed = [room for room in check_layers.load_table().rooms if (ROOT / room).is_dir()]
    own: Counter[str] = Counter()
    for path in tracked("*.cpp", "*.h", "*.py"):
        folder = path.relative_to(ROOT).parent.as_posix()
        if folder.startswith("tests/"):
            folder = "/".join(folder.split("/")[:2])
        own[folder] += not path.name.startswith(("test_", "__init__", "conftest"))
    large = [folder for folder, files in own.items() if files > LARGE and Path(folder).name not in {"src", "csrc"}]
    others = ["ops", "softnpu", "tools", "tests", "bench", "examples", "docs", "torch_npu"]
    return sorted(ROOT / name for name in {*listed, *large, *others})


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*)(?: [a-z-]+)*:(?!=)", (ROOT / "Makefile").read_text(), re.M)) | {"format"}


def test_generated_pages_are_up_to_date():
    """All in one: they take seconds, which each process that collects tests would need for their names alone."""
    stale = [page.name for page, text in gen_docs.pages().items() if page.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make format`"


@cache
def reads() -> dict[str, list[str]]:
    """Variable → the files that read it."""
    found: dict[str, list[str]] = {}
    for path in tracked("*.cpp", "*.h", "*.py"):
        name = path.relative_to(ROOT).as_posix()
        for variable in () if name.startswith("tests/docs/") else variables.read(name, path.read_text("utf-8")):
            found.setdefault(variable, []).append(name)
    return found


def test_every_variable_the_sources_read_is_documented():
    declared = {row["name"] for row in gen_docs.env_rows()} | FOREIGN
    asked = [
        (variable, name)
        for variable, names in reads().items()
        for name in names
        if variable.startswith("ANYCEND_") or name.startswith(PRODUCT)
    ]
    assert [found for found in asked if found[0] not in declared] == []


def test_every_documented_variable_is_read_by_whom_it_says():
    def read(row: dict[str, str]) -> bool:
        return any(name.split("/")[0] in TREES[row["by"]] for name in reads().get(row["name"], ()))

    assert [(row["name"], row["by"]) for row in gen_docs.env_rows() if not read(row)] == []


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("torch_npu/csrc/distributed/settings.cpp", r'"HCCL_CONNECT_TIMEOUT"\), (\d+)\)'),
        ("softnpu/hccl/settings.h", r"connect_timeout\{(\d+)\}"),
    ],
)
def test_a_default_of_two_libraries_is_the_documented_one(path, default):
    documented = next(row["default"] for row in gen_docs.env_rows() if row["name"] == "HCCL_CONNECT_TIMEOUT")
    assert re.findall(default, (ROOT / path).read_text("utf-8")) == [documented]


def test_rooms_of_the_include_table_exist():
    assert [room for room in check_layers.load_table().rooms if not (ROOT / room).exists()] == []


def anchors(page: Path) -> set[str]:
    """GitHub's names of a page's headings: lower case, no punctuation, `-` for spaces, a number from the second on."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize("page", tracked("*.md"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = SPAN.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    links = [link for link in LINK.findall(text) if "://" not in link[0] and any(link)]
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    asked = [(page.parent / link if link else page, anchor) for link, anchor in links if anchor]
    assert [(target.name, anchor) for target, anchor in asked if anchor not in anchors(target)] == []


def test_anchors_are_those_that_github_makes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b_c`, [d](e.md)?\n## The NPU's\n```sh\n# no\n```\n## The NPU's\n### 源文档（x）\n")
    assert anchors(page) == {"a-b_c-d", "the-npus", "the-npus-1", "源文档x"}


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "CONTRIBUTING.md"])
def test_make_commands_exist(page):
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", (ROOT / page).read_text("utf-8"), re.M))
    assert named - targets() == set()


@pytest.mark.parametrize("room", rooms(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_room_has_a_readme_of_one_screen(room):
    readme = room / "README.md"
    assert readme.exists(), f"{readme.relative_to(ROOT)} is missing"
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= SCREEN


def tabled() -> list[Path]:
    """READMEs with a table whose first column is `file`."""
    return [page for page in tracked("*README.md") if re.search(r"^\| file \|", page.read_text("utf-8"), re.M)]


@pytest.mark.parametrize("readme", tabled(), ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_a_readme_with_a_table_of_files_names_each(readme):
    """In backquotes; `rewrite_*` names several. Files of a folder src belong to the folder above."""
    spans = SPAN.findall(FENCE.sub("", readme.read_text(encoding="utf-8")))
    named = {word for span in spans for word in re.findall(r"[\w*]+", span) if word != "*"}
    here = (readme.parent, readme.parent / "src")
    stems = {path.stem for path in tracked("*.cpp", "*.h", "*.py") if path.parent in here}
    stems -= {stem for stem in stems if stem.startswith(("test_", "__init__", "conftest"))}
    assert sorted(stem for stem in stems if not any(fnmatchcase(stem, name) for name in named)) == []


@pytest.mark.parametrize("index", [0, 1])
def test_the_readmes_examples_run(index, tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)[index]
    result = forked.run(["-c", code], cwd=tmp_path, timeout=120)
    assert result.returncode == 0, result.stderr


def test_the_readmes_one_liner_prints_the_device(tmp_path):
    command = re.search(r'^python -c "(.*)"$', (ROOT / "README.md").read_text("utf-8"), re.M)[1]
    result = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=120
    )
    assert "device='npu:0'" in result.stdout, result.stderr


@pytest.mark.parametrize("page", RUN)
def test_the_guides_commands_run(page, tmp_path):
    blocks = FENCE.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    run = {"sh": "{}", "python": "python - <<'END'\n{}END\n", "text": ""}
    script = "".join(run[language].format(code) for language, code in blocks)
    environment = {
        **os.environ, "CLONE": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1", "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for language, expected in blocks:
        assert language != "text" or expected in done.stdout


@pytest.mark.parametrize(("page", "check"), [("race", "race"), ("memory_check", "memory")])
def test_a_checks_page_shows_what_its_program_prints(page, check, tmp_path):
    blocks = FENCE.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    (code,) = (text for language, text in blocks if language == "python")
    (shown,) = (text for language, text in blocks if not language)
    (tmp_path / "train.py").write_text(code)
    done = forked.run(["train.py"], cwd=tmp_path, env={**os.environ, "ANYCEND_CHECK": check}, timeout=120)
    printed = done.stderr.replace(str(tmp_path), "/home/me")
    plain = [" ".join(re.sub(r"0x[0-9a-f]+", "0x", text).split()) for text in (shown, printed)]
    assert done.returncode == 0 and plain[1] == plain[0], done.stderr


@pytest.mark.parametrize("page", tracked("*.zh.md"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_chinese_page_says_where_a_link_leads_to_english(page):
    """To the Chinese page where there is one."""
    wrong = []
    for said, link in re.findall(r"\[([^\[\]]*)\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        twin = (page.parent / link).with_name(Path(link).name.replace(".md", ".zh.md")).exists()
        english = not link.endswith(".zh.md") and "://" not in link and said != "English"
        if english and (twin or not said.endswith("（英文）")):
            wrong.append((said, link))
    assert wrong == []


@pytest.mark.parametrize("page", tracked("*.zh.md"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_chinese_page_shows_the_code_of_its_twin(page):
    twin = page.with_name(page.name.replace(".zh.md", ".md"))
    texts = [path.read_text(encoding="utf-8") for path in (page, twin)]
    assert f"]({twin.name})" in texts[0] and f"]({page.name})" in texts[1]
    blocks = [[(name, re.sub(r" *#.*", "", code)) for name, code in FENCE.findall(text)] for text in texts]
    assert blocks[0] == blocks[1]
    spans = [set(SPAN.findall(FENCE.sub("", text))) for text in texts]
    assert spans[0] == spans[1]


def test_every_command_of_the_documents_is_in_the_table(seeds):
    """Letter for letter but for line breaks, comments and the number in hccn_tool's -i."""

    def plain(text: str) -> str:
        return " ".join(re.sub(r"-i \d", "-i 0", re.sub(r"(^|\s)#.*", "", text).rstrip("\\ ")).split())

    rows = re.findall(r"^\| (.*?) \| ", (ROOT / "docs/guide/commands.md").read_text(encoding="utf-8"), re.M)
    listed = [plain(span.replace("\\ ", "")) for row in rows for span in SPAN.findall(row)]
    missing = []
    for path in sorted(seeds.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        fenced = [code for name in ("shell", "bash", "") for code in document.blocks(text, name)]
        indented = re.findall(r"^ *\.\. code:: shell\n\s*\n((?: .*\n|\s*\n)+)", text, re.M)
        for line in "".join([*fenced, *indented]).replace("\\\n", " ").splitlines():
            command = plain(line)
            if command.split(" ")[0] in COMMANDS and command not in listed:
                missing.append(command)
    assert missing == []


def test_every_package_of_the_documents_is_in_the_table_of_versions(seeds):
    """What they install by name, and versions that they print."""
    page = (ROOT / "docs/guide/versions.md").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in sorted(seeds.glob("*.txt"))]
    lines = [line.split("#")[0] for text in texts for line in re.findall(r"pip3? install (.*)", text)]
    words = [word for line in lines for word in line.split("--no-index")[0].split()]
    names = {re.split("==", word)[0] for word in words if re.fullmatch(r"[A-Za-z][\w-]*(==[\w.]+)?", word)}
    versions = {
        found for text in texts for found in re.findall(r"\b\d+\.\d+\.(?:RC)?\d+(?:\.(?:post|alpha)\d+)?", text)
    }
    addresses = {"127.0.0", "255.255.255"}
    assert len(names) > 20 and len(versions) > 15
    assert [one for one in sorted(names | versions - addresses) if one.lower() not in page.lower()] == []
