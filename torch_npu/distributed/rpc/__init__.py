"""torch_npu.distributed.rpc: names of the vendor's RPC between npus, which is not here; see options."""
