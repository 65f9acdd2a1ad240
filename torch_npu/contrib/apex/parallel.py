"""apex.parallel: data parallel on torch.nn.parallel, and synchronized batch norm on torch.nn.SyncBatchNorm."""

# Annotations are evaluated: DistributedDataParallel looks at those of its communication hook.
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import SyncBatchNorm

__all__ = ["DistributedDataParallel", "Reducer", "SyncBatchNorm", "convert_syncbn_model", "create_syncbn_process_group"]


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch.nn.parallel.DistributedDataParallel by Apex's signature: gradients are averaged in the backward pass.

    Args:
        module: the model, on this rank's device; buffers are not broadcast.
        message_size: elements of a bucket of gradients.
        delay_allreduce: one bucket, after the whole backward pass; then parameters may be left unused.
        allreduce_always_fp32: gradients are added in float32.
        gradient_average: divides by the number of ranks.
        gradient_predivide_factor: the part of that division that is done before adding.

    Raises: ValueError for shared_param; NotImplementedError for the other options of Apex, if they are used.
    """

    def __init__(
        self, module: torch.nn.Module, message_size: int = 10000000, delay_allreduce: bool = False,
        shared_param: Any = None, allreduce_trigger_params: Any = None, retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False, num_allreduce_streams: int = 1, allreduce_communicators: Any = None,
        gradient_average: bool = True, gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: Any = None, prof: bool = False,
    ) -> None:  # fmt: skip
        if shared_param is not None:
            raise ValueError("shared_param is no longer supported as an option: use delay_allreduce=True")
        others = {
            "allreduce_trigger_params": allreduce_trigger_params, "retain_allreduce_buffers": retain_allreduce_buffers,
            "allreduce_communicators": allreduce_communicators, "prof": prof,
            "gradient_average_split_factor": gradient_average_split_factor,
            "num_allreduce_streams": num_allreduce_streams != 1,
        }  # fmt: skip
        for name, used in others.items():
            if used:
                raise NotImplementedError(f"apex.parallel.DistributedDataParallel({name}=…) is not implemented")
        largest = max((p.element_size() for p in module.parameters()), default=4)
        size = 2**40 if delay_allreduce else message_size * largest
        with warnings.catch_warnings():  # forward_sync_buffers=False would send the buffers once, which Apex does not
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            super().__init__(
                module, bucket_cap_mb=size / 2**20, broadcast_buffers=False, find_unused_parameters=delay_allreduce
            )
        before = gradient_predivide_factor
        after = dist.get_world_size() / before if gradient_average else 1.0 / before

        def average(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            gradients = bucket.buffer()
            sent = gradients.float() if allreduce_always_fp32 else gradients
            if before != 1.0:
                sent = sent.div_(before) if sent is gradients else sent / before
            future = dist.all_reduce(sent, async_op=True).get_future()
            return future.then(lambda done: gradients.copy_(done.value()[0].div_(after)))

        self.register_comm_hook(None, average)


class Reducer:
    """Averages gradients when it is told to: for steps that accumulate several backward passes.

    Args:
        module_or_grads_list: the model, whose parameters are broadcast from rank 0 at once, or a list of gradients.
    """

    def __init__(self, module_or_grads_list: torch.nn.Module | list[torch.Tensor]) -> None:
        self._what = module_or_grads_list
        if isinstance(module_or_grads_list, torch.nn.Module):
            for parameter in module_or_grads_list.parameters():
                dist.broadcast(parameter.detach(), 0)

    def reduce(self) -> None:
        """Adds the gradients of all ranks and divides by their number, in place."""
        what = self._what
        given = (p.grad for p in what.parameters()) if isinstance(what, torch.nn.Module) else what
        for grad in (grad for grad in given if grad is not None):
            dist.all_reduce(grad)
            grad.div_(dist.get_world_size())


def create_syncbn_process_group(group_size: int) -> dist.ProcessGroup | None:
    """This rank's group of group_size neighbours, for synchronized batch norm; None (all ranks) for 0.

    Raises: ValueError for what is no number of ranks, and if the number of all is not a multiple of group_size.
    """
    if group_size == 0:
        return None
    ranks = dist.get_world_size()
    if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 0:
        raise ValueError(f"group_size is a number of ranks, 0 for all of them, not {group_size!r}")
    if ranks % group_size:
        raise ValueError(f"the number of ranks, {ranks}, is not a multiple of group_size, {group_size}")
    mine = None
    for first in range(0, ranks, group_size):
        members = list(range(first, first + group_size))
        group = dist.new_group(members)  # every rank makes every group
        mine = group if dist.get_rank() in members else mine
    return mine


def convert_syncbn_model(
    module: torch.nn.Module, process_group: dist.ProcessGroup | None = None, channel_last: bool = False
) -> torch.nn.Module:
    """The module with all its batch norms replaced by torch.nn.SyncBatchNorm.

    Args:
        module: any model; parameters and running statistics are kept.
        process_group: the ranks that share statistics; all by default.
        channel_last: inputs (N, H, W, C); not implemented.
    """
    if channel_last:
        raise NotImplementedError("convert_syncbn_model(channel_last=True) is not implemented")
    return SyncBatchNorm.convert_sync_batchnorm(module, process_group)
