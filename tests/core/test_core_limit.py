"""torch.npu.set_device_limit and its kin."""

from __future__ import annotations

import pytest
import torch

from torch_npu.npu import npu_config


@pytest.fixture
def chip():
    cores = torch.npu.get_device_limit(0)
    yield cores
    torch.npu.set_device_limit(0, *cores.values())
    assert torch.npu.get_device_limit() == cores


def test_a_devices_cores_are_the_chips(chip):
    properties = torch.npu.get_device_properties(0)
    assert chip == {"cube_core_num": properties.cube_core_num, "vector_core_num": properties.vector_core_num}
    assert npu_config.get_device_limit("npu:0") == chip


def test_a_devices_limit_is_kept(chip):
    torch.npu.set_device_limit(0, 2, 3)
    assert torch.npu.get_device_limit(0) == {"cube_core_num": 2, "vector_core_num": 3}
    torch.npu.set_device_limit("npu:0", vector_num=5)
    assert torch.npu.get_device_limit(0) == {"cube_core_num": 2, "vector_core_num": 5}
    assert torch.npu.get_device_limit(1) == chip


def test_a_streams_limit_is_its_own_or_the_devices(chip):
    stream = torch.npu.Stream()
    torch.npu.set_device_limit(0, cube_num=4)
    torch.npu.set_stream_limit(stream, cube_num=2)
    assert torch.npu.get_stream_limit(stream) == {**chip, "cube_core_num": 2}
    assert torch.npu.get_stream_limit(torch.npu.current_stream()) == {**chip, "cube_core_num": 4}
    with torch.npu.stream(stream):
        assert (torch.ones(300, 300, device="npu") @ torch.ones(300, device="npu")).unique().tolist() == [300.0]
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream)["cube_core_num"] == 4


def test_wrong_limits_are_refused(chip):
    stream = torch.npu.current_stream()
    for call in (torch.npu.set_device_limit, torch.npu.set_stream_limit):
        target = 0 if call is torch.npu.set_device_limit else stream
        with pytest.raises(RuntimeError, match="the chip has .* ask for 1 to"):
            call(target, 1000)
        for wrong in (0, -2, 1.5, True):
            with pytest.raises(ValueError, match="cube_num is .* should be a number of cores, or -1"):
                call(target, wrong)
        with pytest.raises(RuntimeError, match="vector_num is 4294967296: the chip has"):
            call(target, 1, 2**32)
    with pytest.raises(TypeError, match="of a stream of an npu"):
        torch.npu.get_stream_limit(0)
    with pytest.raises(RuntimeError, match="invalid device"):
        torch.npu.get_device_limit(99)
    with pytest.raises(RuntimeError, match="invalid device"):
        torch.npu.set_device_limit(256, 1)
    assert torch.npu.get_stream_limit(stream) == torch.npu.get_device_limit(0) == chip
