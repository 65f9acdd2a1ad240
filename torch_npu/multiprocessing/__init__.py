"""npu tensors in torch.multiprocessing: queues, pipes and arguments of processes carry handles of device memory.

There is nothing to import here: `torch_npu` registers its reductions when it is loaded. Use torch.multiprocessing with
the start method "spawn" (or "forkserver"): a device that was used cannot be used in a forked process. The sender keeps
the memory until the receiver lets go of it; torch.npu.ipc_collect() takes back what was let go or lost. Which
tensors can be sent, and how long they must live: docs/sharing.md.
"""
