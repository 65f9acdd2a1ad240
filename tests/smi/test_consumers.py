"""What public tools take from npu-smi's output, tool by tool: each function below reads as that tool does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.smi import patterns
from tests.smi.conftest import until
from tests.smi.patterns import reads

CHIPS = {
    "Ascend910B3": "910B3",
    "Ascend910_9392": "Ascend910",
    "Ascend950PR_9599": "Ascend950PR",
    "Ascend910A": "910A",
}


def value(lines: list[str], key: str) -> str | None:
    """The last line with the key, after its colon."""
    found = None
    for line in lines:
        if key in line and ":" in line:
            found = line.split(":")[1].strip()
    return found


def expand(cpus: str) -> set[int]:
    found: set[int] = set()
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@reads(
    "vllm-ascend, setup.py",
    "`info -l`; `info -t board -i N`, `-c 0`",
    "the last NPU ID; Chip Type, Chip Name, NPU Name",
)
@pytest.mark.parametrize(
    ("soc", "name"),
    [("Ascend910B3", "ascend910b3"), ("Ascend910_9392", "ascend910_9392"), ("Ascend950PR_9599", "ascend950pr_9599")],
)
def test_vllm_ascend_setup_names_the_chip(machine, soc, name):
    m = machine(soc)
    npu = value(m.smi("info", "-l").splitlines(), "NPU ID")
    assert npu == ("3" if "_93" in soc else "7")
    first = m.smi("info", "-t", "board", "-i", npu).splitlines()
    second = m.smi("info", "-t", "board", "-i", npu, "-c", "0").splitlines()
    chip, of = value(second, "Chip Name"), value(second, "NPU Name")
    if "950" in chip:
        found = value(first, "Chip Name") + "_" + value(first, "NPU Name")
    elif value(second, "Chip Type"):
        assert not of
        found = value(second, "Chip Type") + chip
    else:
        found = chip + "_" + of
    assert found.lower() == name


@reads(
    "vllm-ascend, cpu_binding",
    "`info -m`, `info`, `info -t topo`, `info -t board`",
    "columns of -m; rows of processes; the last word of a row of topo; PCIe Bus Info",
)
@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910_9392"])
def test_vllm_ascend_cpu_binding_finds_chips_processes_and_processors(machine, soc):
    m = machine(soc, devices=4)
    users = [m.user(1, 4), m.user(2, 4)]
    mapping: dict[tuple[str, str], str] = {}
    header, *rows = m.smi("info", "-m").strip().split("\n")
    names = re.split(r"\s{2,}", header.strip())
    assert names[:3] == ["NPU ID", "Chip ID", "Chip Logic ID"] and names[-1] == "Chip Name"
    for line in rows:
        npu, chip, logic = line.split()[:3]
        mapping[npu, chip] = logic
    assert sorted(mapping.values()) == ["0", "1", "2", "3"]
    running, in_section = {}, False
    for line in m.smi("info").splitlines():
        if line.startswith("| NPU") and "Process id" in line:
            in_section = True
            assert line.strip("| ").split("|")[0].split() == ["NPU", "Chip"]
        parts = [part.strip() for part in line.strip("|").split("|")]
        if in_section and len(parts) >= 2 and parts[1].isdigit():
            running[int(parts[1])] = int(mapping[tuple(parts[0].split())])
    assert running == {users[0].pid: 1, users[1].pid: 2}
    topo = [line for line in m.smi("info", "-t", "topo").splitlines() if re.match(r"^NPU\d+", line)]
    assert len(topo) == 4 and all(expand(line.split()[-1]) for line in topo)
    for npu, chip in mapping:
        bus = value(
            m.smi("info", "-t", "board", "-i", npu, "-c", chip).replace(":8", "_8").splitlines(), "PCIe Bus Info"
        )
        assert re.fullmatch(r"0000_8[0-3]", bus)


@reads("vllm-ascend, worker", "`info -i N -t health`", "exit code 0, lines `key : value`")
def test_vllm_ascend_worker_reads_the_health(machine):
    lines = machine().smi("info", "-i", "3", "-t", "health").splitlines()
    found = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines if ":" in line)}
    assert found["Health"] == "OK" and found["NPU ID"] == "3"


@reads("vllm-ascend, benchmarks", "`info -l`, `info`", "Total Count; second column of rows that begin with a number")
def test_vllm_ascend_benchmarks_count_and_name_the_chips(machine):
    m = machine("Ascend910B4", devices=2)
    assert re.search(r"Total Count\s*:\s*(\d+)", m.smi("info", "-l"))[1] == "2"
    names = [line.split()[2] for line in m.smi("info").splitlines() if re.match(r"^\| [0-9]+ +\w+ +\| OK", line)]
    assert names == ["910B4", "910B4"]


@reads("DeepSpeed", "`info -l`", "the number behind the first line's colon")
def test_deepspeed_counts_by_the_first_line(machine):
    assert int(machine(devices=5).smi("info", "-l").split("\n")[0].split(":")[1]) == 5


@reads("MindSpeed", "`info -t board -i 0 -c 0`", "Ascend910 in Chip Name")
@pytest.mark.parametrize(("soc", "a3"), [("Ascend910B3", False), ("Ascend910_9392", True)])
def test_mindspeed_knows_the_generation_by_the_chips_name(machine, soc, a3):
    lines = machine(soc).smi("info", "-t", "board", "-i", "0", "-c", "0").splitlines()
    assert ("Ascend910" in value(lines, "Chip Name")) is a3


@reads("sgl-kernel-npu", "`info -t board -i 0`, `-c 0`", "`Chip Name : Ascend950`, `910B` or `Ascend910`")
@pytest.mark.parametrize(
    ("soc", "found"), [("Ascend910B3", "910B"), ("Ascend910_9392", "Ascend910"), ("Ascend950PR_9599", "Ascend950")]
)
def test_sgl_kernel_npu_matches_the_chips_name(machine, soc, found):
    m, pattern = machine(soc), re.compile(r"^\s*Chip Name\s*:\s*(Ascend950|910B|Ascend910)", re.M)
    match = pattern.search(m.smi("info", "-t", "board", "-i", "0"))
    match = match or pattern.search(m.smi("info", "-t", "board", "-i", "0", "-c", "0"))
    assert match[1] == found


@reads("op-plugin, example", "`info`", "the name in the first row")
@pytest.mark.parametrize(("soc", "chip"), CHIPS.items())
def test_op_plugins_example_takes_the_name_from_the_first_row(machine, soc, chip):
    name = re.search(r"^\|\s+\d+\s+(\S+)", machine(soc).smi("info"), re.M)[1]
    assert name == chip and ("950" in name or "910" in name)


@reads("asc-devkit, msprobe", "`info`", "910b, 910 or 950 anywhere")
@pytest.mark.parametrize(
    ("soc", "word"),
    [("Ascend910B3", "910b"), ("Ascend950PR_9599", "950"), ("Ascend910_9392", "910"), ("Ascend910A", "910")],
)
def test_asc_devkit_and_msprobe_look_for_a_word(machine, soc, word):
    assert word in machine(soc).smi("info").lower()


@reads("triton-ascend", "`info`", "ascend950, ascend910_95 or 910_958b anywhere")
@pytest.mark.parametrize(
    ("soc", "is_950"), [("Ascend950PR_9599", True), ("Ascend910B3", False), ("Ascend910_9392", False)]
)
def test_triton_ascend_looks_for_a_950(machine, soc, is_950):
    out = machine(soc).smi("info").lower()
    assert any(word in out for word in ("ascend950", "ascend910_95", "910_958b")) is is_950


@reads(
    "mstt, affinity_cpu_bind",
    "`info -l`, `info -t proc-mem -i N -c 0`, `info -t topo`",
    "words `id:<pid>`; words with a hyphen are processors",
)
def test_mstt_binds_processes_to_their_devices_processors(machine):
    m = machine(devices=2)
    user = m.user(1, 4)
    ids = [line.split(":")[-1].strip() for line in m.smi("info", "-l").splitlines() if "ID" in line]
    assert ids == ["0", "1"]
    pids = {}
    for npu in ids:
        for word in m.smi("info", "-t", "proc-mem", "-i", npu, "-c", "0").split():
            if word.startswith("id:"):
                pids[int(word[3:])] = npu
    assert pids == {user.pid: "1"}
    cpus = [word for word in m.smi("info", "-t", "topo").split() if "-" in word]
    assert len(cpus) == 2 and all(expand(word) for word in cpus)


@reads(
    "mind-cluster, fault diagnosis",
    "`info -m`, `info -t board`, `usages`, `health`, `info`",
    "columns two blanks apart from the third line on; NPU ID; the version twice",
)
@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910_9392"])
def test_mind_cluster_reads_collected_outputs(machine, soc):
    m = machine(soc, devices=4)
    lines = ("npu-smi info -m\n" + m.smi("info", "-m")).splitlines()
    chips = [re.split(r"\s{2,}", line.strip()) for line in lines[2:] if line.strip()]
    assert len(chips) == 4 and all(row[-1] != "Mcu" and row[2] != "-" for row in chips)
    assert {row[-1] for row in chips} == {"Ascend 910B3" if "B3" in soc else "Ascend910"}
    for kind in ("board", "usages", "health"):
        assert re.search(r"^\s*NPU ID\s+: 0$", m.smi("info", "-t", kind, "-i", "0"), re.M)
    banner = re.search(r"npu-smi (\S+)\s+Version: (\S+)", m.smi("info"))
    assert banner[1] == banner[2] and re.fullmatch(r"\d+\.\d+\.\d+", banner[1])


@reads(
    "nputop",
    "`info -t usages`, `temp`, `power`, `proc-mem`, `board`",
    "a number behind each gauge's colon; process, name and memory",
)
def test_nputop_reads_every_gauge(machine):
    m = machine(devices=2)
    user = m.user(1, 512)

    def gauge(kind: str, name: str) -> float:
        return float(
            re.search(re.escape(name) + r"\s*:\s*([\d.]+)", m.smi("info", "-t", kind, "-i", "1", "-c", "0"))[1]
        )

    assert gauge("usages", "HBM Capacity(MB)") == 1024 and gauge("usages", "HBM Usage Rate(%)") == 50
    assert gauge("usages", "HBM Bandwidth Usage Rate(%)") == 0
    user.do("work")
    assert until(lambda: gauge("usages", "Aicore Usage Rate(%)") > 0)
    assert gauge("temp", "NPU Temperature (C)") == 0 and gauge("power", "Power(W)") == 0
    out = m.smi("info", "-t", "proc-mem", "-i", "1", "-c", "0")
    assert re.findall(r"Process id:(\d+).*Process memory\(MB\):(\d+)", out) == [(str(user.pid), "512")]
    assert re.search(r"Driver Version\s*:\s*(\S+)", m.smi("info", "-t", "board", "-i", "1"))


@reads("swanlab", "`-v`, `info -m`", "the version behind the colon; id, chip, logic id, name")
def test_swanlab_reads_the_version_and_the_map(machine):
    m = machine(devices=2)
    assert re.fullmatch(r"\d+\.\d+\.\d+", m.smi("-v").split(":")[-1].strip())
    rows = [line.split() for line in m.smi("info", "-m").split("\n")[1:] if line.split()]
    assert [(r[0], r[1], r[2], " ".join(r[3:])) for r in rows] == [
        ("0", "0", "0", "Ascend 910B3"),
        ("1", "0", "1", "Ascend 910B3"),
    ]


@reads("a tuning tool of MindIE", "`info -t usages -i N`", "HBM Capacity(MB), HBM Usage Rate(%)")
@pytest.mark.parametrize("soc", CHIPS)
def test_a_tuning_tool_takes_the_memory_after_the_colons(machine, soc):
    m = machine(soc)
    m.user(0, 256)
    lines = m.smi("info", "-t", "usages", "-i", "0", "-c", "0").splitlines()
    assert (value(lines, "HBM Capacity(MB)"), value(lines, "HBM Usage Rate(%)")) == ("1024", "25")


@reads("mindformers", "`info -m`, `info -t board`, `info -t topo`", "PCIeBusInfo without blanks; hccs before Legend")
def test_mindformers_takes_names_addresses_and_links(machine):
    m = machine()
    for line in m.smi("info", "-m").strip().split("\n")[1:]:
        npu, chip, logic, name = line.strip().split(None, 3)
        assert name.strip() == "Ascend 910B3" and npu == logic and chip == "0"
        board = m.smi("info", "-t", "board", "-i", npu, "-c", chip).strip().split("\n")
        (bus,) = (line.replace(" ", "") for line in board if "PCIeBusInfo" in line.replace(" ", ""))
        assert bus.strip().split(":", 1)[1] == f"0000:{0x80 + int(npu):02X}:00.0"
    topo = m.smi("info", "-t", "topo")
    assert "hccs" in topo[: topo.index("Legend")].lower()


@reads("mindediting", "`info -t usages -i N`, `info -l`", "the fifth word of HBM Usage, the fourth of ID")
def test_mindediting_counts_words(machine):
    m = machine(devices=3)
    m.user(2, 512)
    usage = [line.split()[4] for line in m.smi("info", "-t", "usages", "-i", "2").splitlines() if "HBM Usage" in line]
    assert usage == ["50"]
    assert [line.split()[3] for line in m.smi("info", "-l").splitlines() if "ID" in line] == ["0", "1", "2"]


@reads("MindIE, health checker", "`info -t usages -i 0`", "the last word of Chip Count")
@pytest.mark.parametrize(("soc", "chips"), [("Ascend910B3", "1"), ("Ascend910_9392", "2")])
def test_mindies_health_checker_takes_the_last_word(machine, soc, chips):
    lines = machine(soc).smi("info", "-t", "usages", "-i", "0").splitlines()
    assert [line.split()[-1] for line in lines if "Chip Count" in line] == [chips]


@reads("op-plugin, tests", "`info -t common -i 0`", "the last three characters of Aicore Count")
@pytest.mark.parametrize(("soc", "cores"), [("Ascend910B3", 20), ("Ascend910B1", 24)])
def test_op_plugins_tests_take_the_last_three_characters(machine, soc, cores):
    (line,) = (x for x in machine(soc).smi("info", "-t", "common", "-i", "0").splitlines() if "Aicore Count" in x)
    assert int(line[-3:]) == cores


@reads("expressions of many scripts", "`info`", "HBM used and total of second rows, `<number> 910` of first ones")
@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910A"])
def test_generic_expressions_match_the_rows(machine, soc):
    m = machine(soc, devices=2)
    m.user(1, 128)
    out = m.smi("info")
    pattern = r"\|\s*\d+\s+\|\s+[\w:.]+\s+\|\s+\d+\s+\d+\s*/\s*\d+\s+(\d+)\s*/\s*(\d+)"
    assert re.findall(pattern, out) == [("0", "1024"), ("128", "1024")]
    assert re.findall(r"\|\s*(\d+)\s+910", out) == ["0", "1"]


@reads(
    "mind-cluster, fault diagnosis of links",
    "`info -t hccs`, `info -t spod-info`",
    "links and pods, which a software NPU has not: refused",
)
@pytest.mark.parametrize("kind", ["hccs", "spod-info"])
def test_mind_cluster_is_refused_what_a_software_npu_has_not(machine, kind):
    assert f"a software NPU has nothing to say of -t {kind}" in machine().refused("info", "-t", kind, "-i", "0")


def test_every_reader_has_its_row_and_the_page_has_the_rows():
    from tests.smi import test_acl_module, test_dcmi  # noqa: F401  (their rows)

    readers = {name for name in globals() if name.startswith("test_") and "every_reader" not in name}
    assert readers - set(patterns.rows) == set()
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    rows = [patterns.Row(*row) for row in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", page, re.M)]
    assert sorted({*patterns.rows.values(), *patterns.ABSENT}) == sorted(row for row in rows if row.tool != "tool")
