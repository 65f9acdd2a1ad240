"""torch_npu.npu_change_data_ptr: a tensor's memory becomes part of another's."""

from __future__ import annotations

import pytest
import torch

import torch_npu


def test_tensors_lie_one_behind_the_other_in_one_memory():
    parts = [torch.arange(6.0).view(2, 3).npu().t(), torch.full((4,), 7.0).npu()]
    memory, index = torch.zeros(12).npu(), 1
    for t in parts:
        values, version = t.clone(), t._version
        assert torch_npu.npu_change_data_ptr(t, memory, index) == 0
        assert t.count_nonzero().item() == 0 and t._version == version + 1
        t.copy_(values)
        index += torch_npu.get_storage_size(t)
    assert memory.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 7.0, 7.0, 7.0, 0.0]
    memory.fill_(2.0)
    assert parts[0].tolist() == [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]] and parts[0].stride() == (1, 3)


def test_views_follow_and_the_memory_stays():
    t = torch.zeros(4).half().npu()
    view, memory = t[1:], torch.arange(8.0).half().npu()
    torch_npu.npu_change_data_ptr(t, memory, 3)
    del memory
    other = [torch.ones(8).half().npu() for _ in range(8)]
    assert view.tolist() == [4.0, 5.0, 6.0] and len(other) == 8


@pytest.mark.parametrize(
    ("source", "index", "message"),
    [
        (torch.zeros(8), -1, "dst's 4 elements do not fit from index -1"),
        (torch.zeros(8), 5, "do not fit from index 5 on into src's memory of 8"),
        (torch.zeros(8).half(), 0, "one type|the type of|Half"),
    ],
)
def test_what_does_not_fit(source, index, message):
    t = torch.ones(4).npu()
    with pytest.raises((RuntimeError, ValueError), match=message):
        torch_npu.npu_change_data_ptr(t, source.npu(), index)
    assert t.tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="the same memory"):
        torch_npu.npu_change_data_ptr(t, t[1:], 0)
    with pytest.raises(ValueError, match="both have to be on one npu"):
        torch_npu.npu_change_data_ptr(t, torch.zeros(8), 0)


def test_memory_that_two_have_is_not_resized():
    dst, src = torch.zeros(6, device="npu"), torch.arange(20.0, device="npu")
    torch_npu.npu_change_data_ptr(dst, src, 10)
    with pytest.raises(RuntimeError, match="not resizable"):
        src.untyped_storage().resize_(0)
    assert dst.tolist() == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
