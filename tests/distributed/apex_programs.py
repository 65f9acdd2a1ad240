"""What ranks run of torch_npu.contrib.apex: f(rank, size, ...) by name from Job.run, for test_apex.py."""

from __future__ import annotations

import torch
from torch import nn

from tests.distributed.programs import DEVICE, model, train
from torch_npu.contrib.apex import amp, parallel


def apex_ddp(rank: int, size: int, options: dict) -> float:
    """apex's DistributedDataParallel: the largest difference from one rank with the joined batch."""
    torch.manual_seed(3)
    x, y = torch.randn(size * 6, 8), torch.randn(size * 6, 4)
    alone = model()
    train(alone, x, y, 5)
    net = parallel.DistributedDataParallel(model().to(DEVICE), **options)
    here = slice(rank * 6, rank * 6 + 6)
    train(net, x[here].to(DEVICE), y[here].to(DEVICE), 5)
    pairs = zip(alone.parameters(), net.module.parameters(), strict=True)
    return max(float((a.detach() - b.detach().cpu()).abs().max()) for a, b in pairs)


def apex_summed(rank: int, size: int) -> list[float]:
    """The gradient with gradient_average=False: the sum over ranks."""
    net = parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False).to(DEVICE), gradient_average=False)
    net(torch.full((1, 2), float(rank + 1), device=DEVICE)).sum().backward()
    return net.module.weight.grad.flatten().tolist()


def apex_combined(rank: int, size: int, level: str) -> list[list[float]]:
    """amp with combine_ddp: the master's gradient is the mean over ranks, step by step."""
    torch.manual_seed(1)
    net = nn.Linear(2, 1, bias=False).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net, optimizer = amp.initialize(
        net, optimizer, opt_level=level, loss_scale=8.0, combine_ddp=True, ddp_replica_count=2, verbosity=0
    )
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        with amp.scale_loss(net(torch.full((1, 2), float(rank + step), device=DEVICE)).sum(), optimizer) as scaled:
            scaled.backward()
        seen.append(next(amp.master_params(optimizer)).grad.flatten().tolist())
        optimizer.step()
    torch.set_autocast_enabled("npu", False)
    amp._amp_state.__init__()
    return seen


def apex_reduced(rank: int, size: int) -> list[float]:
    """Reducer: parameters of rank 0, and the mean of the gradients."""
    net = nn.Linear(2, 1, bias=False).to(DEVICE)
    nn.init.constant_(net.weight, float(rank + 5))
    reducer = parallel.Reducer(net)
    net(torch.full((1, 2), float(rank + 1), device=DEVICE)).sum().backward()
    reducer.reduce()
    return [*net.weight.flatten().tolist(), *net.weight.grad.flatten().tolist()]


def apex_batch_norm(rank: int, size: int) -> float:
    """A converted batch norm in a group of all ranks: the difference from the joined batch."""
    torch.manual_seed(0)
    x = torch.randn(size * 3, 4, 2, 2)
    plain = nn.BatchNorm2d(4)
    wanted = plain(x)[rank * 3 : rank * 3 + 3]
    group = parallel.create_syncbn_process_group(size)
    net = parallel.convert_syncbn_model(nn.Sequential(nn.BatchNorm2d(4)), group).to(DEVICE)
    got = net(x[rank * 3 : rank * 3 + 3].to(DEVICE)).cpu()
    for wrong, said in ((size + 1, "is not a multiple of group_size"), (-1, "not -1"), ("2", "not '2'")):
        try:
            parallel.create_syncbn_process_group(wrong)
        except ValueError as error:
            assert said in str(error)
        else:
            raise AssertionError(f"a group of {wrong} was made")
    statistics = (plain.running_mean - net[0].running_mean.cpu()).abs().max()
    return float(max((got - wanted).abs().max(), statistics))
