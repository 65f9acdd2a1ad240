"""What GPU scripts do with a cuda device beside the factories of test_devices.py: rarer tensors, optimizers, DDP."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=d),
        lambda d: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=d, layout=torch.jagged),
        lambda d: torch._efficientzerotensor((2,), device=d),
        lambda d: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
        lambda d: torch.randint_like(torch.ones(3), 0, 5, device=d),
        lambda d: torch.randn_like(torch.ones(3), device=d),
        lambda d: torch.empty_permuted((2, 3), (1, 0), device=d),
        lambda d: torch.hamming_window(5, device=d),
        lambda d: nn.Embedding(3, 2, device=d).weight.detach(),
        lambda d: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), device=d),
    ],
    ids=["nested", "jagged", "zero", "csr", "randint_like", "randn_like", "permuted", "window", "Embedding", "coo"],
)
@pytest.mark.parametrize("index", [0, 1])
def test_rarer_tensors(make, index: int) -> None:
    assert make(f"cuda:{index}").device == make(f"npu:{index}").device == torch.device("npu", index)


def test_what_the_npu_cannot_make_fails_in_the_same_words() -> None:
    errors = []
    for device in ("npu", "cuda"):
        with pytest.raises(NotImplementedError) as caught:
            torch._empty_affine_quantized((2,), scale=1.0, zero_point=0, dtype=torch.qint8, device=device)
        errors.append(str(caught.value).split("\n")[0])
    assert errors[0] == errors[1] and "npu" in errors[0]


def test_with_a_device_of_torch_cuda() -> None:
    with torch.cuda.device(1):
        assert torch.zeros(1, device="cuda").device == torch.ones(1).cuda().device == torch.device("npu", 1)
    assert torch.zeros(1, device="cuda").device == torch.device("npu", 0)


def test_a_module_goes_to_the_card_of_its_number() -> None:
    module = nn.Linear(2, 2).cuda(1)
    assert module.weight.device == torch.device("npu", 1)
    assert module.to("cuda").weight.device == torch.device("npu", 0)


def test_from_one_card_to_another() -> None:
    x = torch.arange(3.0)
    assert x.to("cuda:0").to("cuda:1").device == torch.device("npu", 1)
    assert x.to("cuda:1").to("cuda").device == torch.device("npu", 0)
    assert x.to("cuda").to("cuda", copy=True).data_ptr() != x.to("cuda").data_ptr()


def test_a_device_compares_as_what_it_is() -> None:
    x = torch.ones(1, device="cuda:0")
    assert x.device != torch.device("cuda:0") and x.device.type == "npu"
    assert torch.device(0) == torch.device("npu", 0)
    assert torch.device("cuda", 0).type == "cuda"


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
        lambda p: torch.optim.Adam(p, lr=0.1),
    ],
    ids=["SGD", "AdamW foreach", "AdamW fused", "Adam"],
)
def test_training_steps_equal_the_cpus(optimizer) -> None:
    def train(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        batch = torch.randn(5, 3)
        model.to(device)
        steps = optimizer(model.parameters())
        for _ in range(3):
            loss = checkpoint(model, batch.to(device), use_reentrant=False).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            steps.step()
            steps.zero_grad(set_to_none=True)
        return copy.deepcopy(model)[0].weight.detach().cpu()

    torch.testing.assert_close(train("cuda"), train("cpu"))


def test_a_loader_with_a_worker_pins_for_cuda() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1, pin_memory=True)
    assert [batch.cuda(non_blocking=True).tolist() for (batch,) in loader] == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.skipif("hccl" not in dist.Backend.backend_list, reason="the process group for npu is not built yet")
@pytest.mark.parametrize("ids", [[0], [torch.device("cuda:0")], None], ids=["0", "cuda:0", "none"])
def test_ddp_by_cudas_names(ids) -> None:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        plain = nn.Linear(2, 2)
        model = nn.parallel.DistributedDataParallel(copy.deepcopy(plain).cuda(), device_ids=ids)
        model(torch.ones(1, 2, device="cuda")).sum().backward()
        plain(torch.ones(1, 2)).sum().backward()
        torch.testing.assert_close(model.module.weight.grad.cpu(), plain.weight.grad)
    finally:
        dist.destroy_process_group()
