"""torch.npu.comm: tensors of one process over several npus, as torch.cuda.comm.

broadcast(tensor, devices=None, *, out=None), broadcast_coalesced(tensors, devices, buffer_size=10485760),
scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None),
gather(tensors, dim=0, destination=None, *, out=None), reduce_add(inputs, destination=None),
reduce_add_coalesced(inputs, destination=None, buffer_size=10485760): PyTorch's own (torch/nn/parallel/comm.py), with
its shapes and errors. What they need below is in _spread.py.
"""

from torch.nn.parallel.comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
