"""npu-smi's own forms: every query on every family, widths, help, watch."""

from __future__ import annotations

import re
import subprocess

import pytest

SOCS = ["Ascend910A", "Ascend910B3", "Ascend910_9392", "Ascend950PR_9599"]
QUERIES = {
    "board": ["Product Name", "Software Version", "PCIe Bus Info", "PCI Device ID", "Chip Count"],
    "common": ["HBM Usage Rate(%)", "Aicore Usage Rate(%)", "Aicore Count", "Temperature(C)", "NPU Real-time Power(W)"],
    "health": ["Health", "Error Code", "Error Information"],
    "memory": ["DDR Capacity(MB)", "HBM Capacity(MB)", "HBM Temperature(C)", "HBM Manufacturer ID"],
    "power": ["NPU Real-time Power(W)"],
    "proc-mem": [],
    "product": ["Product Type"],
    "temp": ["NPU Temperature (C)"],
    "usages": [
        "DDR Capacity(MB)",
        "HBM Capacity(MB)",
        "HBM Usage Rate(%)",
        "Aicore Usage Rate(%)",
        "Ctrlcpu Usage Rate(%)",
    ],
}


@pytest.mark.parametrize("soc", SOCS)
def test_every_query_has_its_lines_in_order(machine, soc):
    m = machine(soc, devices=3)
    for kind, names in QUERIES.items():
        lines = m.smi("info", "-t", kind, "-i", 1).splitlines()
        assert all(re.fullmatch(r"\t.{30} : .+|", line) for line in lines), kind
        found = [line[1:31].strip() for line in lines]
        assert found[0] == "NPU ID" and [name for name in found if name in names] == names, (kind, found)
        of_chip = m.smi("info", "-t", kind, "-i", 1, "-c", 0).splitlines()
        assert of_chip[0] == f"\t{'NPU ID':30} : 1", kind


def test_an_npu_of_two_chips_is_told_chip_by_chip(machine):
    m = machine("Ascend910_9392", devices=3)
    both, last = (m.smi("info", "-t", "temp", "-i", npu) for npu in (0, 1))
    assert re.findall(r"Chip (?:ID|Count) +: (\d)", both) == ["2", "0", "1"]
    assert re.findall(r"Chip (?:ID|Count) +: (\d)", last) == ["1", "0"]
    assert "Chip ID                        : 1" in m.smi("info", "-t", "temp", "-i", 0, "-c", 1)
    assert "there is no chip 1" in m.refused("info", "-t", "temp", "-i", 1, "-c", 1)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("devices", [0, 1, 64])
def test_the_table_is_a_rectangle(machine, soc, devices):
    m = machine(soc, devices=devices)
    lines = m.smi("info").splitlines()
    assert {len(line) for line in lines} == {99} and {line[0] + line[-1] for line in lines} == {"++", "||"}
    npus = devices // 2 if soc == "Ascend910_9392" and devices > 1 else devices
    assert sum("No running processes" in line for line in lines) == npus
    assert sum(" OK " in line for line in lines) == devices


@pytest.mark.parametrize(
    ("soc", "heads"),
    [
        ("Ascend910B3", ["NPU Name", "Chip", "NPU Chip"]),
        ("Ascend910_9392", ["NPU Name", "Chip Phy-ID", "NPU Chip"]),
        ("Ascend950PR_9599", ["NPU ID Name", "", "NPU ID"]),
    ],
)
def test_a_family_has_its_headings(machine, soc, heads):
    lines = machine(soc, devices=2).smi("info").splitlines()
    title, below, processes = lines[3], lines[4], next(line for line in lines if "Process id" in line)
    assert [" ".join(line.split("|")[1].split()) for line in (title, below, processes)] == heads
    assert ("NPU Util(%)" in below) is (soc == "Ascend950PR_9599")


def test_two_chips_of_one_npu_are_nearer(machine):
    rows = [line.split() for line in machine("Ascend910_9392", devices=4).smi("info", "-t", "topo").splitlines()]
    assert rows[0][:4] == ["NPU0", "NPU1", "NPU2", "NPU3"] and rows[0][4:] == ["CPU", "Affinity"]
    assert [row[1:5] for row in rows[1:5]] == [
        ["X", "SIO", "HCCS", "HCCS"],
        ["SIO", "X", "HCCS", "HCCS"],
        ["HCCS", "HCCS", "X", "SIO"],
        ["HCCS", "HCCS", "SIO", "X"],
    ]


def test_help_and_version_need_no_machine(machine):
    m = machine()
    m.env["ANYCEND_DEVICES"] = "many"
    for words in ("-h", "--help", "info -h", "set --help", "clear -h", "upgrade -h"):
        assert m.smi(*words.split()).startswith("usage: npu-smi info ")
    assert m.smi("-v") == m.smi("--version") != ""
    assert "u - AI Cube Usage" in m.smi("info", "watch", "-h")
    assert all(kind in m.smi("-h") for kind in [*QUERIES, "topo"])


def test_watch_has_all_columns_and_a_line_a_chip(machine):
    m = machine("Ascend910_9392", devices=3)
    with subprocess.Popen([m.tool, "info", "watch"], env=m.env, stdout=subprocess.PIPE, text=True) as watch:
        head, *rows = [re.split(r"\s{2,}|(?<=\)) ", watch.stdout.readline().strip()) for _ in range(4)]
        watch.kill()
    assert head[:4] == ["NpuID(Idx)", "ChipId(Idx)", "Pwr(W)", "Temp(C)"]
    assert head[4:8] == ["AI Core(%)", "AI Cpu(%)", "Ctrl Cpu(%)", "Memory(%)"]
    assert head[8:] == ["Memory BW(%)", "NPU Util(%)", "AI Cube(%)"]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"], ["1", "0"]]
    assert all(len(row) == len(head) and float(row[2]) == 0 for row in rows)


def test_watch_ends_when_nobody_reads(machine):
    m = machine(devices=1)
    with subprocess.Popen([m.tool, "info", "watch"], env=m.env, stdout=subprocess.PIPE) as watch:
        watch.stdout.readline()
        watch.stdout.close()
        assert watch.wait(60) != 0
