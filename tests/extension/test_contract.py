"""torch_npu/include: what the public headers declare does what they say, called from an extension."""

from __future__ import annotations

import copy
import io
import re
from pathlib import Path

import pytest
import torch

import torch_npu
from tests.extension.build import SOURCES

INCLUDE = Path(torch_npu.__path__[0]) / "include"
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("contract")


def call(name: str, *arguments):
    return getattr(torch.ops.contract, name)(*arguments)


def test_every_header_is_compiled_here_and_listed_in_the_page():
    ours = ROOT / "torch_npu" / "include" / "torch_npu"
    # Those of compiled models are written into their sources: tests/inductor/test_cpp_wrapper.py compiles them.
    headers = {str(path.relative_to(ours.parent)) for path in ours.rglob("*.h") if path.parent.name != "inductor"}
    source = (SOURCES / "contract.cpp").read_text()
    page = (ROOT / "docs" / "extensions.md").read_text()
    assert headers == set(re.findall(r'#include "(torch_npu/[^"]+)"', source))
    assert [name for name in sorted(headers) if name.removeprefix("torch_npu/csrc/") not in page] == []
    assert [name for name in sorted(headers) if not (INCLUDE / name).is_file()] == []


def test_handles_of_the_current_stream():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        handle, drained, converted, _, device, default = call("streams")
    assert handle == drained == converted == stream.npu_stream
    assert (device, default) == (0, torch.npu.default_stream().npu_stream)
    assert call("streams")[0] == torch.npu.current_stream().npu_stream


@pytest.mark.parametrize("high", [False, True])
def test_a_stream_guard_restores_the_stream(high):
    before, within, after = call("stream_guard", high)
    assert before == after == torch.npu.current_stream().stream_id
    assert within not in (-1, before)


def test_device_guards_restore_the_device():
    assert call("device_guard", 2) == [0, 2, 0, 2, 0]
    assert call("exchange_device", 3) == 3
    assert call("exchange_device", -1) == 0
    assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="99"):
        call("device_guard", 99)
    assert call("device_count") == torch.npu.device_count()
    assert call("synchronize") is True


def test_events_measure_and_refuse_without_timing():
    milliseconds, microseconds = call("timed", torch.ones(1 << 16, device="npu"))
    assert 0 <= milliseconds < 60_000
    assert abs(microseconds / 1e3 - milliseconds) < 0.01
    with pytest.raises(RuntimeError, match=r"elapsed_time needs events with timing.*ACL_EVENT_TIME_LINE"):
        call("untimed")


def test_a_stream_waits_for_an_event():
    assert call("waited", torch.ones(100_000, device="npu")).sum().item() == 300_000


def test_raw_memory_is_the_caches():
    before, within, after = call("raw_memory", 1 << 20)
    assert (within - before, after) == (1 << 20, before)


def test_pinned_blocks_are_known():
    known, foreign = call("pinned")
    assert (known, foreign) == (0, 100000)


def test_from_blob_shows_the_memory():
    x = torch.arange(10.0, device="npu")
    shown = call("blob", x)
    assert shown.tolist() == [[1, 2], [5, 6]]
    x[5] = -1
    assert shown[1, 0].item() == -1
    assert call("blob_deleter", x) == [0, 1]


def test_outputs():
    made = call("prepared", torch.ones(2, device="npu:1", dtype=torch.float16), [3, 4])
    assert (made.shape, made.dtype, made.device) == ((3, 4), torch.float16, torch.device("npu:1"))
    with pytest.raises(RuntimeError, match="Expected NPU tensor.*cpu"):
        call("prepared", torch.ones(2), [3])


def test_formats_are_tags():
    x = torch.arange(6.0, device="npu").view(2, 3)
    nz = call("npu_format_cast", x, 29)
    assert (call("get_npu_format", x), call("get_npu_format", nz)) == (2, 29)
    assert torch.equal(x, nz)
    made = call("with_format", [2, 3], 29)
    assert (made.dtype, made.device.type, call("get_npu_format", made)) == (torch.float16, "npu", 29)
    assert call("storage_sizes", x.clone()) == [2, 3]
    assert call("storage_sizes", x[:, :2]) == [6]  # of the tensor that the memory was made for
    assert call("storage_sizes", nz) == [1, 1, 16, 16]
    with pytest.raises(ValueError, match="there is no acl_format 77"):
        call("npu_format_cast", x, 77)
    with pytest.raises(RuntimeError, match="Expected NPU tensor"):
        call("get_npu_format", x.cpu())


@pytest.mark.parametrize("reader", ["description", "description_by_a_copy"])
def test_a_storage_carries_its_description(reader):
    """Format, base offset, type and sizes, as our header has them, and as the copies that extensions carry."""
    dtypes = {call(reader, torch.zeros(1, dtype=t, device="npu"))[2]: t for t in (torch.float16, torch.uint8)}
    half, byte = dtypes
    x = torch.zeros(2, 3, 5, 7, dtype=torch.float16, device="npu")
    assert call(reader, x) == [2, 0, half, 0, 4, 2, 3, 5, 7, 4, 105, 35, 7, 1, 4, 2, 3, 5, 7]
    nz = torch_npu.npu_format_cast(x[0, 0], 29)
    assert call(reader, nz.t()) == [29, 0, half, 2, 2, 5, 7, 2, 7, 1, 4, 1, 1, 16, 16]
    raw = torch.empty(0, dtype=torch.uint8, device="npu").set_(torch.UntypedStorage(12, device="npu"))
    shown = call("blob", torch.zeros(10, device="npu"))
    file = io.BytesIO()
    torch.save(torch.zeros(3, dtype=torch.uint8, device="npu"), file)
    sent = torch.load(io.BytesIO(file.getvalue()))
    assert call(reader, raw) == [2, 0, byte, 2, 1, 12, 1, 1, 1, 12]
    assert call(reader, shown)[3:] == [2, 2, 2, 2, 2, 4, 1, 2, 2, 2]
    assert call(reader, sent)[:3] == [2, 0, byte]
    assert call(reader, torch.zeros(2, 3, device="npu").set_())[4:] == [1, 0, 1, 1, 1, 0]


X = torch.arange(6, dtype=torch.uint8)
STORAGES = {
    "made": lambda x: torch.empty_like(x),
    "of a number of bytes": lambda x: x.new_empty(0).set_(torch.UntypedStorage(12, device="npu")),
    "made larger": lambda x: x.new_empty(0).resize_(4000),
    "of bytes made larger": lambda x: x.new_empty(0).set_(torch.UntypedStorage(0, device="npu").resize_(64)),
    "emptied": lambda x: x.clone().set_(),
    "copied": lambda x: x.new_empty(0).set_(x.untyped_storage().clone()),
    "copied deeply": lambda x: copy.deepcopy(x),
    "cloned lazily": lambda x: torch._lazy_clone(x),
    "loaded": lambda x: torch.load(saved(x)),
    "loaded from the CPU's": lambda x: torch.load(saved(x.cpu()), map_location="npu"),
    "from the meta device": lambda x: torch.nn.Linear(2, 2, device="meta").to_empty(device="npu").weight,
    "of another's memory": lambda x: call("blob", torch.zeros(10, device="npu")),
    "of a gradient": lambda x: gradient(),
}


def saved(x: torch.Tensor) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(x, file)
    return io.BytesIO(file.getvalue())


def gradient() -> torch.Tensor:
    w = torch.ones(3, device="npu", requires_grad=True)
    w.square().sum().backward()
    return w.grad


@pytest.mark.parametrize("how", STORAGES)
def test_a_copied_reader_stays_within_the_storage(how):
    """However a storage is made, its object is as large as what such a reader takes it for."""
    made = STORAGES[how](X.npu())
    room, read = call("description_room", made)
    assert made.is_npu and room >= read


PLAIN = {
    "the CPU's": lambda x: x.cpu(),
    "from DLPack": lambda x: torch.from_dlpack(x),
    "at an address": lambda x: x.new_empty(0).set_(
        torch._C._construct_storage_from_data_pointer(x.data_ptr(), x.device, x.numel())
    ),
}


@pytest.mark.parametrize("how", PLAIN)
def test_our_header_refuses_a_storage_that_pytorch_made_around_memory_of_others(how):
    """A copied reader would leave it; a clone has what such a reader looks for."""
    x = X.npu()
    made = PLAIN[how](x)
    room, read = call("description_room", made)
    assert room < read
    with pytest.raises(RuntimeError, match=r"the storage has no description of a format.*clone"):
        call("description", made)
    assert call("description_by_a_copy", made.npu().clone())[4:6] == [1, 6]


def test_a_reader_may_change_a_format():
    x = torch.zeros(5, 7, device="npu")
    call("set_format", x, 29)
    assert torch_npu.get_npu_format(x) == 29


def test_is_npu_and_initialize():
    assert call("is_npu", torch.ones(1, device="npu")) and not call("is_npu", torch.ones(1))
    call("initialize", torch.device("npu:1"))
    call("initialize", torch.device("cpu"))
    with pytest.raises(RuntimeError, match="99"):
        call("initialize", torch.device("npu:99"))


def test_the_generator_gives_seeds_and_offsets():
    torch.npu.manual_seed(7)
    assert call("philox", None, 10) == [7, 0, 12]
    assert call("philox", None, 4) == [7, 12, 16]
    own = torch.Generator("npu").manual_seed(9)
    assert call("philox", own, 1) == [9, 0, 4]
    expected = torch.rand(4, device="npu", generator=torch.Generator("npu").manual_seed(9)).tolist()
    assert torch.rand(4, device="npu", generator=own).tolist() != expected
    with pytest.raises(
        RuntimeError, match="Expected a '(npu|privateuseone)' device type for generator but found 'cpu'"
    ):
        call("philox", torch.Generator(), 1)


def test_a_command_calls_its_handler_at_once():
    assert call("command", 0) == 3
    with pytest.raises(RuntimeError, match="aclnnPretended failed"):
        call("command", 161002)
    assert call("command_stream", True) != call("command_stream", False)
    with pytest.raises(RuntimeError, match=r"needs Name\(...\) before Run"):
        call("nameless")


def test_a_command_of_inputs_and_outputs_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="RoiAlign is described by Input, Output and Attr.*EXEC_NPU_CMD_EXT"):
        call("described", torch.ones(1, device="npu"))


def test_a_status_becomes_an_exception():
    call("check_status", 0)
    with pytest.raises(RuntimeError, match="returned 107000 ACL_ERROR_RT_PARAM_INVALID"):
        call("check_status", 107000)


def test_sync_debug_mode():
    x = torch.ones(1, device="npu")
    call("sync_debug", 0)
    try:
        with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
            call("sync_debug", 2)
        with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
            x.item()
    finally:
        torch.npu.set_sync_debug_mode(0)
    assert x.item() == 1
