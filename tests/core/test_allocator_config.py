"""PYTORCH_NPU_ALLOC_CONF: csrc/core/allocator_config.cpp, and what its keys change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from tests.core.tools import output

FAILS = """
import torch
try:
    torch.UntypedStorage(8, device="npu")
    print("accepted")
except ValueError as error:
    print(error)
print(torch.ones(2).tolist())
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such_key:1", "there is no key 'no_such_key'"),
        ("max_split_size_mb", "is not of the form key:value"),
        ("max_split_size_mb:many", "not a number"),
        ("max_split_size_mb:5", "must be >= 20"),
        ("garbage_collection_threshold:1.5", "garbage_collection_threshold"),
        ("expandable_segments:maybe", "maybe"),
        ("expandable_segments:True,max_split_size_mb:64", "cannot be combined"),
        ("base_addr_aligned_kb:17", "base_addr_aligned_kb must be from 0 to 16"),
        ("page_size:4k", "page_size must be 1g"),
        ("multi_stream_lazy_reclaim:1", "must be True or False"),
        ("per_process_memory_fraction:2", "must be from 0 to 1"),
        ("roundup_power2_divisions:[256:1", "brackets"),
    ],
)
def test_a_wrong_setting_is_one_error_that_names_it(text, said):
    printed = output(FAILS, PYTORCH_NPU_ALLOC_CONF=text)
    assert f"PYTORCH_NPU_ALLOC_CONF={text}" in printed
    assert said in printed
    assert printed.endswith("[1.0, 1.0]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max_split_size_mb:64, garbage_collection_threshold:0.8",
        "expandable_segments:True,base_addr_aligned_kb:0",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
        "page_size:1g,multi_stream_lazy_reclaim:True,pin_memory_expandable_segments:False",
        "pinned_use_background_threads:True",
        "segment_size_mb:32",
    ],
)
def test_known_settings_are_accepted(text):
    assert output(FAILS, PYTORCH_NPU_ALLOC_CONF=text).startswith("accepted")


def test_the_shared_variable_is_read_too():
    program = "import torch; x = torch.UntypedStorage(2 << 20, device='npu'); print(torch.npu.memory_reserved() >> 20)"
    assert output(program, PYTORCH_ALLOC_CONF="large_segment_size_mb:40") == "40"


def test_both_variables_at_once_are_refused():
    text = output(FAILS, PYTORCH_NPU_ALLOC_CONF="max_split_size_mb:64", PYTORCH_ALLOC_CONF="max_split_size_mb:64")
    assert "PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set" in text


def test_settings_may_change_while_the_program_runs():
    text = output(
        """
        import torch
        torch.npu.init()
        torch.npu.memory._set_allocator_settings("large_segment_size_mb:40")
        x = torch.UntypedStorage(2 << 20, device="npu")
        print(torch.npu.memory_reserved() >> 20)
        try:
            torch.npu.memory._set_allocator_settings("nonsense:1")
        except ValueError as error:
            print(error)
        """
    )
    assert text.splitlines()[0] == "40"
    assert "there is no key 'nonsense'" in text


FIRST = """
#include <c10/core/AllocatorConfig.h>
const c10::CachingAllocator::DeviceConfigParserHookRegistry registered([](const std::string&) {},
                                                                       {"base_addr_aligned_kb", "of_cuda"});
"""


def test_another_back_end_may_have_told_c10_of_a_key_before(tmp_path):
    """A PyTorch with CUDA has: the import ended the process. What either knows is taken."""
    (tmp_path / "first.cpp").write_text(FIRST)
    home = Path(torch.__file__).parent
    command = ["g++", "-std=c++20", "-shared", "-fPIC", "first.cpp", "-o", "first.so", f"-isystem{home}/include"]
    subprocess.run([*command, f"-L{home}/lib", "-lc10"], cwd=tmp_path, check=True)
    text = output(
        f"""
        import ctypes, torch
        ctypes.CDLL({str(tmp_path / "first.so")!r})
        import torch_npu
        torch._C._accelerator_setAllocatorSettings("per_process_memory_fraction:0.5,page_size:1g,of_cuda:1")
        print(torch.npu.get_per_process_memory_fraction(), (torch.ones(2).npu() + 1).tolist())
        """,
        fresh=True,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert text == "0.5 [2.0, 2.0]"


def test_a_block_above_max_split_size_is_not_split():
    text = output(
        """
        import torch
        big = torch.UntypedStorage(100 << 20, device="npu"); del big
        small = torch.UntypedStorage(12 << 20, device="npu")
        print(torch.npu.memory_reserved() >> 20)
        near = torch.UntypedStorage(90 << 20, device="npu")
        stats = torch.npu.memory_stats()
        print(torch.npu.memory_reserved() >> 20, stats["oversize_allocations.current"], stats["max_split_size"] >> 20)
        """,
        PYTORCH_NPU_ALLOC_CONF="max_split_size_mb:64",
    )
    assert text.split() == ["112", "112", "1", "64"]


def test_sizes_round_up_to_divisions_of_powers_of_two():
    text = output(
        "import torch; x = torch.UntypedStorage(1300 << 10, device='npu'); print(torch.npu.memory_allocated() >> 10)",
        PYTORCH_NPU_ALLOC_CONF="roundup_power2_divisions:4",
    )
    assert text == "1536"


def test_garbage_is_collected_above_the_threshold():
    text = output(
        """
        import torch
        for size in (30, 31, 32):
            x = torch.UntypedStorage(size << 20, device="npu"); del x
        keep = [torch.UntypedStorage(32 << 20, device="npu")]
        y = torch.UntypedStorage(40 << 20, device="npu")
        print(torch.npu.memory_reserved() >> 20, torch.npu.memory_stats()["num_alloc_retries"])
        """,
        ANYCEND_MEMORY="160M",
        PYTORCH_NPU_ALLOC_CONF="garbage_collection_threshold:0.5",
    )
    reserved, retries = map(int, text.split())
    assert reserved < 30 + 32 + 32 + 40 and retries == 0


def test_a_fraction_from_the_environment_limits_the_process():
    text = output(
        """
        import torch
        try:
            torch.UntypedStorage(100 << 20, device="npu")
        except torch.OutOfMemoryError as error:
            print("allowed" in str(error), torch.npu.get_per_process_memory_fraction())
        """,
        ANYCEND_MEMORY="160M",
        PYTORCH_NPU_ALLOC_CONF="per_process_memory_fraction:0.5",
    )
    assert text == "True 0.5"


EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}


def test_an_expandable_segment_grows_instead_of_a_new_one():
    text = output(
        """
        import torch
        a = torch.UntypedStorage(30 << 20, device="npu")
        b = torch.UntypedStorage(30 << 20, device="npu")
        print(b.data_ptr() - a.data_ptr() == 30 << 20, torch.npu.memory_reserved() >> 20)
        del a, b
        c = torch.UntypedStorage(70 << 20, device="npu")
        print(torch.npu.memory_reserved() >> 20, len(torch.npu.memory_snapshot()))
        print(torch.npu.memory_snapshot()[0]["is_expandable"])
        """,
        **EXPANDABLE,
    )
    assert text.split() == ["True", "60", "80", "1", "True"]


def test_an_expandable_segment_shrinks_and_its_holes_are_filled():
    text = output(
        """
        import torch
        a, b, c = (torch.UntypedStorage(40 << 20, device="npu") for _ in range(3))
        base = a.data_ptr()
        del a
        torch.npu.empty_cache()
        print(torch.npu.memory_reserved() >> 20, len(torch.npu.memory_snapshot()))
        d = torch.UntypedStorage(35 << 20, device="npu")
        print(d.data_ptr() == base, torch.npu.memory_reserved() >> 20)
        del b, c, d
        torch.npu.empty_cache()
        print(torch.npu.memory_reserved(), torch.npu.memory_allocated(), len(torch.npu.memory_snapshot()))
        """,
        **EXPANDABLE,
    )
    assert text.split() == ["80", "1", "True", "120", "0", "0", "0"]


def test_expandable_segments_hold_what_is_written():
    text = output(
        """
        import torch
        torch.manual_seed(0)
        kept = []
        for step in range(200):
            values = torch.randn(int(torch.randint(1, 400000, (1,))))
            kept.append((values, values.npu()))
            if len(kept) > 6:
                values, copy = kept.pop(step % 6)
                assert torch.equal(values, copy.cpu())
            if step % 50 == 49:
                torch.npu.empty_cache()
        print(all(torch.equal(values, copy.cpu()) for values, copy in kept))
        """,
        **EXPANDABLE,
    )
    assert text == "True"


def test_expandable_segments_run_out_cleanly():
    text = output(
        """
        import torch
        a = torch.UntypedStorage(60 << 20, device="npu")
        try:
            torch.UntypedStorage(100 << 20, device="npu")
        except torch.OutOfMemoryError as error:
            print("out of memory" in str(error), torch.npu.memory_reserved() >> 20)
        del a
        print(torch.UntypedStorage(100 << 20, device="npu").nbytes() >> 20)
        """,
        ANYCEND_MEMORY="128M",
        **EXPANDABLE,
    )
    assert text.split() == ["True", "60", "100"]


def test_out_of_memory_tells_what_others_hold():
    text = output(
        """
        import ctypes, torch
        import torch_npu
        torch.npu.init()
        runtime = ctypes.CDLL(torch_npu.__path__[0] + "/softnpu/lib64/libascendcl.so")
        torch.npu.set_device(0)
        torch.npu.synchronize()
        held = ctypes.c_void_p()
        print(runtime.aclrtMalloc(ctypes.byref(held), ctypes.c_size_t(100 << 20), 0))
        try:
            torch.UntypedStorage(64 << 20, device="npu")
        except torch.OutOfMemoryError as error:
            print("100.00 MiB is used by others: npu-smi info" in str(error), error)
        """,
        ANYCEND_MEMORY="128M",
    )
    assert text.split()[:2] == ["0", "True"], text
