"""Streams: csrc/core/stream.cpp, guard.cpp, torch_npu/npu/streams.py."""

from __future__ import annotations

import ctypes
import threading

import pytest
import torch

from tests.core.tools import BUSY, LIBRARY, Gate, busy, output


@pytest.fixture(autouse=True)
def default_streams():
    yield
    for index in (1, 0):
        torch.npu.set_stream(torch.npu.default_stream(index))


@pytest.fixture
def acl_stream():
    torch.npu.init()
    acl, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p()
    assert acl.aclrtSetDevice(0) == 0
    assert acl.aclrtCreateStream(ctypes.byref(handle)) == 0
    yield handle.value
    assert acl.aclrtSynchronizeStream(handle) == 0
    assert acl.aclrtDestroyStream(handle) == 0


def test_the_current_stream_begins_as_the_default_one():
    assert torch.npu.current_stream() == torch.npu.default_stream()
    assert torch.npu.current_stream().stream_id == 0


def test_streams_of_the_pool_come_in_turn_and_come_back():
    text = output(
        """
        import torch
        seen = [torch.npu.Stream().stream_id for _ in range(64)]
        print(len(set(seen)), seen[:32] == seen[32:])
        """,
        STREAMS_PER_DEVICE=None,
    )
    assert text == "32 True"


def test_the_pool_has_the_size_the_variable_says():
    program = "import torch; print(len({torch.npu.Stream().stream_id for _ in range(64)}))"
    assert output(program, STREAMS_PER_DEVICE="8") == "8"


def test_high_priority_streams_are_others():
    low, high = torch.npu.Stream(), torch.npu.Stream(priority=-1)
    assert (low.priority, high.priority) == (0, -1)
    assert low.npu_stream != high.npu_stream


def test_a_stream_knows_its_device():
    stream = torch.npu.Stream(device="npu:1")
    assert stream.device == torch.device("npu:1")
    assert torch.npu.Stream(device=1).device_index == 1


def test_equality_and_hash_are_by_stream():
    stream = torch.npu.Stream()
    same = torch.npu.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
    assert stream == same and hash(stream) == hash(same)
    assert stream != torch.npu.Stream()
    assert isinstance(stream, torch.Stream)


def test_stream_context_changes_stream_and_device_and_restores_both():
    stream = torch.npu.Stream(device=1)
    before = torch.npu.current_stream(1)
    with torch.npu.stream(stream):
        assert torch.npu.current_device() == 1
        assert torch.npu.current_stream() == stream
        assert torch.npu.current_stream(0) == torch.npu.default_stream(0)
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream(1) == before


def test_stream_contexts_nest_even_with_the_same_object():
    stream = torch.npu.Stream()
    context = torch.npu.stream(stream)
    with context, torch.npu.stream(torch.npu.default_stream()), context:
        assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_a_stream_context_of_none_changes_nothing():
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == torch.npu.default_stream()


def test_a_torch_stream_is_a_context_too():
    stream = torch.Stream("npu:0")
    with stream:
        assert torch.npu.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_set_stream_sets_the_device_too():
    stream = torch.npu.Stream(device=1)
    torch.npu.set_stream(stream)
    assert torch.npu.current_device() == 1
    assert torch.npu.current_stream() == stream


def test_the_current_stream_is_the_threads():
    torch.npu.set_stream(torch.npu.Stream())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream().stream_id))
    thread.start()
    thread.join()
    assert seen == [0]


def test_query_and_synchronize():
    stream = torch.npu.Stream()
    assert stream.query()
    gate = Gate(stream)
    assert not stream.query()
    gate.open(after=0.05)
    stream.synchronize()
    assert stream.query()


def test_device_synchronization_waits_for_every_stream():
    streams = [torch.npu.Stream() for _ in range(3)]
    for stream in streams:
        busy(stream, 0.05)
    torch.npu.synchronize()
    assert all(stream.query() for stream in streams)


@pytest.mark.parametrize("device", [None, -1, "npu", torch.device("npu")], ids=str)
def test_synchronize_without_an_index_waits_for_the_current_device(device):
    with torch.npu.device(1):
        stream = torch.npu.Stream()
        busy(stream, 0.1)
        torch.npu.synchronize(device)
        assert stream.query()


def test_the_accelerator_synchronizes_too():
    stream = torch.npu.Stream(device=1)
    busy(stream, 0.05)
    torch.accelerator.synchronize(1)
    assert stream.query()


def test_a_stream_is_the_devices_first_use():
    """PyTorch's own note, without which torch.accelerator.synchronize() waits for nothing."""
    program = """
        import torch, torch_npu
        from tests.core.tools import busy
        stream = torch.npu.Stream(device=1)
        busy(stream, 0.2)
        torch.accelerator.synchronize(1)
        print(stream.query())
    """
    assert output(program) == "True"


def test_a_stream_waits_for_another():
    first, second = torch.npu.Stream(), torch.npu.Stream()
    gate = Gate(first)
    second.wait_stream(first)
    done = second.record_event()
    assert not done.query()
    gate.open(after=0.05)
    second.synchronize()
    assert first.query() and done.query()


def test_an_external_stream_is_the_same_stream():
    stream = torch.npu.Stream()
    external = torch.npu.ExternalStream(stream.npu_stream)
    assert external.npu_stream == stream.npu_stream
    assert external == stream
    busy(stream, 0.05)
    external.synchronize()
    assert stream.query()
    with torch.npu.stream(external):
        assert torch.npu.current_stream().npu_stream == stream.npu_stream


def test_a_stream_made_elsewhere_is_used(acl_stream):
    external = torch.npu.ExternalStream(acl_stream)
    assert external.npu_stream == acl_stream
    assert external == torch.npu.ExternalStream(acl_stream)
    gate = Gate(external)
    event = external.record_event()
    assert not event.query()
    gate.open(after=0.05)
    event.synchronize()
    with torch.npu.stream(external):
        assert torch.npu.current_stream().npu_stream == acl_stream


def test_a_pointer_that_cannot_be_a_stream_is_refused():
    with pytest.raises(ValueError, match="not a stream"):
        torch.npu.ExternalStream(0)


def test_nothing_is_captured_by_default():
    assert not torch.npu.is_current_stream_capturing()


def test_a_stream_synchronization_may_time_out():
    text = output(
        BUSY
        + """
import torch
busy(torch.npu.current_stream(), 1)
try:
    torch.npu.current_stream().synchronize()
except torch.AcceleratorError as error:
    print(error)
""",
        ACL_STREAM_TIMEOUT="50",
    )
    assert "aclrtSynchronizeStreamWithTimeout failed" in text and "TIMEOUT" in text


@pytest.mark.parametrize(
    "use",
    [
        torch.npu.stream,
        torch.npu.set_stream,
        lambda stream: torch.npu.graph(torch.npu.NPUGraph(), stream=stream),
        lambda stream: torch.zeros(2, device="npu").record_stream(stream),
    ],
)
def test_what_is_no_stream_of_an_npu_is_named(use):
    with pytest.raises(ValueError, match=r"cpu.*: give a torch.npu.Stream"):
        use(torch.Stream("cpu"))
    # The latter are the words of PyTorch's parser.
    with pytest.raises((TypeError, RuntimeError), match="Stream|unknown parameter type"):
        use(5)
    assert torch.npu.current_stream() == torch.npu.default_stream()
