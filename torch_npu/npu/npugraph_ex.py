"""torch.npu.npugraph_ex: the names of torch_npu.dynamo.npugraph_ex, where they are implemented. Loaded at first use."""

from torch_npu.dynamo.npugraph_ex import compile_fx, inference, register_replacement, scope

__all__ = ["compile_fx", "inference", "register_replacement", "scope"]
