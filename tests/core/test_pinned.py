"""Pinned host memory: csrc/core/pinned.cpp."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.core.tools import Gate, output
from tests.older import OLDER


def test_pin_memory_pins_and_keeps_the_values():
    tensor = torch.arange(1000)
    pinned = tensor.pin_memory()
    assert pinned.is_pinned() and not tensor.is_pinned()
    assert pinned.device.type == "cpu" and torch.equal(pinned, tensor)


def test_factories_pin():
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.zeros(3, 4, pin_memory=True).sum() == 0


def test_a_view_of_pinned_memory_is_pinned():
    assert torch.empty(100, pin_memory=True)[50:].is_pinned()


def test_nothing_is_pinned_before_the_first_use():
    assert output("import torch; print(torch.ones(3).is_pinned(), torch.npu.is_initialized())") == "False False"


def test_memory_is_used_again():
    first = torch.empty(5000, pin_memory=True)
    address = first.data_ptr()
    del first
    assert torch.empty(4900, pin_memory=True).data_ptr() == address


def test_a_block_in_use_by_a_stream_is_not_given_out():
    source = torch.ones(50000, pin_memory=True)
    address, stream = source.data_ptr(), torch.npu.Stream()
    target = torch.empty(50000, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(stream):
        gate = Gate(stream)
        target.copy_(source, non_blocking=True)
    del source
    other = torch.zeros(50000, pin_memory=True)
    assert other.data_ptr() != address
    gate.open()
    stream.synchronize()
    assert target.cpu().sum() == 50000
    del other
    again = [torch.empty(50000, pin_memory=True) for _ in range(3)]
    assert address in [tensor.data_ptr() for tensor in again]


def test_a_copy_from_pinned_memory_does_not_wait():
    source, stream = torch.ones(1000, pin_memory=True), torch.npu.Stream()
    with torch.npu.stream(stream):
        target = torch.zeros(1000, device="npu")
        stream.synchronize()
        gate = Gate(stream)
        target.copy_(source, non_blocking=True)
        assert not stream.query()
    gate.open()
    stream.synchronize()
    assert target.cpu().sum() == 1000


def test_a_copy_to_pinned_memory_does_not_wait():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        source = torch.ones(1000, device="npu")
        target = torch.zeros(1000, pin_memory=True)
        stream.synchronize()
        gate = Gate(stream)
        target.copy_(source, non_blocking=True)
        assert not stream.query()
    gate.open()
    stream.synchronize()
    assert target.sum() == 1000


def test_statistics_and_emptying_the_cache():
    torch.npu.host_empty_cache()
    keep = torch.empty(1 << 16, dtype=torch.uint8, pin_memory=True)
    stats, count = torch.npu.host_memory_stats(), "allocated_bytes.current" if OLDER else "active_bytes.current"
    assert stats["active_bytes.current"] >= 1 << 16
    assert stats["num_host_alloc"] >= 1
    del keep
    torch.npu.host_empty_cache()
    assert torch.npu.host_memory_stats()[count] == stats[count] - (1 << 16)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_pins(workers):
    data = TensorDataset(torch.arange(64.0).reshape(16, 4), torch.arange(16))
    seen = []
    for features, labels in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert features.is_pinned() and labels.is_pinned()
        seen += labels.npu(non_blocking=True).cpu().tolist()
    assert seen == list(range(16))
