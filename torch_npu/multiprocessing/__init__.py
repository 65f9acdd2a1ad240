"""npu tensors in torch.multiprocessing: queues, pipes and arguments of processes carry handles of device memory.

There is nothing to import here: `torch_npu` registers its reductions when it is loaded.
"""
