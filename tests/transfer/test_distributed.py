"""Names of back ends and devices; what is sent over them is tested in tests/hccl and tests/distributed."""

from __future__ import annotations

import pytest
import torch
from torch import distributed as dist


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("nccl", "hccl"),
        ("NCCL", "hccl"),
        ("hccl", "hccl"),
        ("gloo", "gloo"),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,npu:hccl"),
        ("cuda:nccl", "npu:hccl"),
        ("cuda:gloo", "npu:gloo"),
    ],
)
def test_backend_names(name: str, wanted: str) -> None:
    assert dist.Backend(name) == wanted


def test_backend_constants_stay() -> None:
    assert dist.Backend.NCCL == "nccl"
    assert dist.Backend.GLOO == "gloo"


def test_nccl_is_available_where_hccl_is() -> None:
    assert dist.is_nccl_available() == ("hccl" in dist.Backend.backend_list)


def test_a_device_mesh_for_cuda_is_one_for_npu() -> None:
    assert dist.DeviceMesh("cuda", torch.arange(1), _init_backend=False, _rank=0).device_type == "npu"


@pytest.mark.skipif("hccl" not in dist.Backend.backend_list, reason="the process group for npu is not built yet")
@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", None])
def test_a_group_of_one_by_cudas_names(backend: str | None) -> None:
    store = dist.HashStore()
    dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
    try:
        tensor = torch.ones(3, device="cuda")
        dist.all_reduce(tensor)
        assert tensor.tolist() == [1.0, 1.0, 1.0]
        if backend == "nccl":
            assert dist.get_backend() == "hccl"
    finally:
        dist.destroy_process_group()
