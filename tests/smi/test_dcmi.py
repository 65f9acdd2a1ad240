"""softnpu/dcmi: libdcmi.so through ctypes, in a process that has not opened a device."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hccl.ranks import library_folder
from tests.smi.conftest import until
from tests.smi.patterns import reads
from tools.abi import status as abi_status

ASK = Path(__file__).parent / "ask_dcmi.py"
INVALID_PARAMETER, INVALID_DEVICE, NOT_SUPPORT = -8001, -8007, -8255


class Asked:
    def __init__(self, env: dict[str, str]):
        command = [sys.executable, ASK, library_folder() / "libdcmi.so"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def __call__(self, expression: str):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return ast.literal_eval(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def dcmi(machine):
    """Makes a machine and somebody who asks libdcmi about it."""
    asked = []

    def make(*args, **kwargs):
        m = machine(*args, **kwargs)
        asked.append(Asked(m.env))
        return m, asked[-1]

    yield make
    for a in asked:
        a.close()


def test_the_nine_functions_of_the_vendors_wheel(dcmi):
    _, ask = dcmi("Ascend910B3", devices=3)
    assert ask("status('dcmi_init')") == ask("status('dcmiv2_init')") == 0
    assert ask("listed('dcmi_get_card_num_list', 64)") == (0, 3, [0, 1, 2])
    assert ask("listed('dcmiv2_get_device_list', 64, first=False)") == (0, 3, [0, 1, 2])
    assert ask("numbers('dcmi_get_device_id_in_card', count=3, first=(2,))") == (0, 1, -1, -1)
    code, pcie = ask("fields('dcmi_get_device_pcie_info_v2', Pcie, 2, 0)")
    assert code == 0 and (pcie["domain"], pcie["busid"], pcie["devid"], pcie["funcid"]) == (0, 0x82, 0, 0)
    assert (pcie["venderid"], pcie["deviceid"]) == (0x19E5, 0xD802)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1 and cpus[1] == cpus[0] + 1:  # others: test_a_first_range_of_one_processor...
        for call in ("dcmi_get_affinity_cpu_info_by_device_id', 0, 0", "dcmiv2_get_affinity_cpu_info_by_dev_id', 0",
                     "dcmiv2_get_affinity_cpu_info_by_device_id', 0"):  # fmt: skip
            code, text, length = ask(f"affinity('{call})")
            first, last = map(int, text.split(",")[0].split("-"))
            assert (code, length) == (0, len(text)) and first == cpus[0] < last and len(text) < 32


PROCESSORS = """
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) {
  CPU_ZERO_S(bytes, set);
  for (const char* at = getenv("PROCESSORS"); *at; ++at)
    if (*at != ' ') CPU_SET_S(strtol(at, (char**)&at, 10), bytes, set), --at;
  return 0;
}
"""


def test_a_first_range_of_one_processor_is_not_told(dcmi, tmp_path):
    """The vendor's torch_npu aborts there, whatever comes behind it."""
    (tmp_path / "processors.c").write_text(PROCESSORS)
    command = ["cc", "-shared", "-fPIC", "-o", tmp_path / "processors.so", tmp_path / "processors.c"]
    subprocess.run(command, check=True)
    found = {}
    for processors in ("0 2 3", "0", "0 1 3", "4 5 6"):
        _, ask = dcmi(LD_PRELOAD=str(tmp_path / "processors.so"), PROCESSORS=processors)
        code, text, _ = ask("affinity('dcmi_get_affinity_cpu_info_by_device_id', 0, 0)")
        found[processors] = text if code == 0 else code
    assert found == {"0 2 3": NOT_SUPPORT, "0": NOT_SUPPORT, "0 1 3": "0-1,3-3", "4 5 6": "4-6"}


@pytest.mark.parametrize(
    ("soc", "kind", "chip", "npu", "cores", "pci"),
    [
        ("Ascend910A", "Ascend", "910A", "", 32, 0xD801),
        ("Ascend910B3", "Ascend", "910B3", "", 20, 0xD802),
        ("Ascend910_9392", "", "Ascend910", "9392", 24, 0xD803),
        ("Ascend950PR_9599", "", "Ascend950PR", "9599", 32, 0xD806),
    ],
)
def test_a_chip_says_what_it_is(dcmi, soc, kind, chip, npu, cores, pci):
    _, ask = dcmi(soc, devices=2)
    expected = {"chip_type": kind, "chip_name": chip, "chip_ver": "V1", "aicore_cnt": cores, "npu_name": npu}
    assert ask("fields('dcmi_get_device_chip_info_v2', ChipInfo, 0, 0)") == (0, expected)
    assert ask("fields('dcmiv2_get_device_chip_info', ChipInfo, 1)") == (0, expected)
    assert ask("fields('dcmi_get_device_chip_info', ChipInfo, 0, 0)") == (0, {**expected, "npu_name": ""})
    assert ask("fields('dcmiv2_get_device_pcie_info', Pcie, 1)")[1]["deviceid"] == pci
    assert ask("number('dcmi_get_device_type', 0, 0)") == ask("number('dcmiv2_get_device_type', 1)") == (0, 0)
    for name in ("health", "temperature", "power_info"):
        assert ask(f"number('dcmi_get_device_{name}', 0, 0)") == ask(f"number('dcmiv2_get_device_{name}', 1)") == (0, 0)
    assert ask("number('dcmi_get_device_errorcode_v2', 0, 0, after=((Uint * 8)(), 8))") == (0, 0)
    assert ask("text('dcmi_get_product_type', 0, 0)") == (0, "Software NPU")
    code, version = ask("text('dcmi_get_dcmi_version')")
    assert code == 0 and version.count(".") == 2 and ask("text('dcmi_get_driver_version')") == (0, version)


def test_numbers_of_chips_where_an_npu_has_two(dcmi):
    _, ask = dcmi("Ascend910_9392", devices=3)
    assert ask("listed('dcmi_get_card_list', 64)") == (0, 2, [0, 1])
    assert ask("number('dcmi_get_all_device_count')") == (0, 3)
    assert ask("[number('dcmi_get_device_num_in_card', c) for c in range(3)]") == [
        (0, 2),
        (0, 1),
        (INVALID_DEVICE, -77),
    ]
    for id, card, device in ((0, 0, 0), (1, 0, 1), (2, 1, 0)):
        for name in ("logicid", "phyid"):
            assert ask(f"numbers('dcmi_get_card_id_device_id_from_{name}', {id}, count=2)") == (0, card, device)
        assert ask(f"numbers('dcmi_get_device_logic_id', {card}, {device}, count=1)") == (0, id)
        assert ask(f"number('dcmi_get_device_phyid_from_logicid', {id})") == (0, id)
        assert ask(f"number('dcmiv2_get_chip_phy_id_by_dev_id', {id})") == (0, id)
    sio, hccs = 6, 3
    assert ask("[number('dcmi_get_topo_info_by_device_id', 0, 0, *b)[1] for b in ((0, 0), (0, 1), (1, 0))]") == [
        0,
        sio,
        hccs,
    ]
    assert ask("number('dcmiv2_get_topo_info_by_device_id', 1, 0)") == (0, sio)


def test_memory_processes_and_utilization(dcmi):
    m, ask = dcmi(devices=2)
    user = m.user(1, 256)
    hbm = {"memory_size": 1024, "freq": 0, "memory_usage": 256, "temp": 0, "bandwidth": 0}
    assert ask("fields('dcmi_get_device_hbm_info', Hbm, 1, 0)") == (0, hbm)
    assert ask("fields('dcmiv2_get_device_hbm_info', Hbm, 0)") == (0, {**hbm, "memory_usage": 0})
    assert ask("processes('dcmi_get_device_resource_info', 1, 0)") == (0, [(user.pid, 256 << 20)])
    assert ask("processes('dcmiv2_get_device_proc_mem_info', 0)") == (0, [])
    assert ask("number('dcmi_get_device_utilization_rate', 1, 0, 6)") == (0, 25)
    assert ask("number('dcmi_get_device_utilization_rate', 1, 0, 2)") == (0, 0)
    user.do("work")
    assert until(lambda: ask("number('dcmi_get_device_utilization_rate', 1, 0, 2)")[1] > 0)
    assert until(lambda: ask("fields('dcmi_get_device_multi_utilization_rate', Rates, 1, 0)")[1]["aicore"] > 0)
    assert ask("number('dcmiv2_get_device_utilization_rate', 0, 13)") == (0, 0)
    user.kill()
    assert ask("processes('dcmi_get_device_resource_info', 1, 0)") == (0, [])
    assert ask("fields('dcmi_get_device_hbm_info', Hbm, 1, 0)")[1]["memory_usage"] == 0


def test_a_device_that_a_living_process_has_lost_is_critical_until_it_is_back(dcmi):
    m, ask = dcmi("Ascend910_9392", devices=4)
    m.env["ANYCEND_FAULT"] = "device3:lost:2"
    user = m.user(3)

    def told() -> list:
        table = re.findall(r"^\| \d+ +Ascend910 +\| (\w+) ", m.smi("info"), re.M)
        health = dict(
            re.findall(r"^\t(Health|Error Information) +: (.+)$", m.smi("info", "-t", "health", "-i", 1, "-c", 1), re.M)
        )
        both = ask("[number('dcmi_get_device_health', 1, 1), number('dcmiv2_get_device_health', 2)]")
        return [table, *health.values(), both, ask("number('dcmi_get_fault_device_num_in_card', 1)")]

    fine = [["OK"] * 4, "OK", "NA", [(0, 0), (0, 0)], (0, 0)]
    assert told() == fine
    user.do("lose")
    lost = [[*["OK"] * 3, "Critical"], "Critical", f"lost by process {user.pid} (python)", [(0, 3), (0, 0)], (0, 1)]
    assert until(
        lambda: [re.sub(r"python[\d.]+", "python", one) if isinstance(one, str) else one for one in told()] == lost
    )
    user.do("find")
    assert until(lambda: told() == fine)
    user.do("lose")
    user.kill()
    assert told() == fine


def test_what_is_not_there_is_refused_with_its_code(dcmi):
    _, ask = dcmi(devices=2)
    health = "number('dcmi_get_device_health', {}, {})"
    for npu in (2, -1, 99):
        assert ask(health.format(npu, 0)) == (INVALID_DEVICE, -77)
    for chip in (1, -1):
        assert ask(health.format(0, chip)) == (INVALID_PARAMETER, -77)
    assert ask("number('dcmi_get_device_logicid_from_phyid', Uint(0xFFFFFFFF))") == (INVALID_DEVICE, -77)
    assert ask("number('dcmi_get_device_utilization_rate', 0, 0, 5)") == (NOT_SUPPORT, -77)
    assert ask("listed('dcmi_get_card_list', 1)") == (INVALID_PARAMETER, -77, [])
    assert ask("text('dcmi_get_dcmi_version', length=3)") == (INVALID_PARAMETER, "")
    for name in ("health", "hbm_info", "chip_info_v2", "pcie_info_v2"):
        assert ask(f"status('dcmi_get_device_{name}', 0, 0, None)") == INVALID_PARAMETER
    assert ask("status('dcmi_get_card_list', None, None, 64)") == INVALID_PARAMETER


def test_a_bad_setting_or_registry_fails_and_says_why(dcmi):
    m, ask = dcmi()
    m.registry.parent.mkdir()
    m.registry.write_bytes(b"x")
    assert ask("fields('dcmi_get_device_hbm_info', Hbm, 0, 0)")[0] == -8005
    assert b"has 1 bytes, not 4194304" in ask("message()")


def test_everything_else_is_not_supported(dcmi):
    _, ask = dcmi()
    stubs = [name for name, lib, soft in abi_status.symbols() if lib == "dcmi" and soft == "stub"]
    assert len(stubs) > 200
    assert set(ask(f"[status(n) for n in {stubs}]")) == {NOT_SUPPORT}


# Of the functions of dcmi_ by which mind-cluster's exporter, device plugin and container runtime ask.
ANSWERED = """init get_card_list get_card_num_list get_device_num_in_card get_device_id_in_card get_device_type
get_device_health get_device_temperature get_device_power_info get_device_hbm_info get_device_utilization_rate
get_device_multi_utilization_rate get_device_errorcode_v2 get_device_chip_info_v2 get_device_pcie_info_v2
get_device_resource_info get_device_logic_id get_device_logicid_from_phyid get_device_phyid_from_logicid
get_card_id_device_id_from_logicid get_product_type get_dcmi_version get_affinity_cpu_info_by_device_id""".split()
REFUSED = """get_device_voltage get_device_frequency get_device_memory_info_v3 get_device_die_v2 get_device_board_info
get_device_ecc_info get_device_ip get_device_network_health get_device_info get_device_boot_status get_card_elabel_v2
get_mainboard_id mcu_get_power_info subscribe_fault_event""".split()


@reads("mind-cluster, exporter and plugins", "`libdcmi.so`", "23 of 37 functions answer, the others -8255")
def test_what_the_exporter_asks_is_there_and_what_is_not_is_refused(dcmi):
    _, ask = dcmi()
    assert (len(ANSWERED), len(REFUSED)) == (23, 14)
    kinds = {name: soft for name, lib, soft in abi_status.symbols() if lib == "dcmi"}
    assert [name for name in ANSWERED if kinds[f"dcmi_{name}"] != "native"] == []
    assert ask(f"[hasattr(library, 'dcmi_' + name) for name in {ANSWERED}]") == [True] * 23
    assert ask(f"[status('dcmi_' + name) for name in {REFUSED}]") == [NOT_SUPPORT] * 14


def test_the_asking_process_itself_is_counted(dcmi):
    _, ask = dcmi()
    code, pid = ask("hold(64 << 20)")
    assert code == 0
    assert ask("processes('dcmi_get_device_resource_info', 0, 0)") == (0, [(pid, 64 << 20)])
