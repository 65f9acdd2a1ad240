"""torch_npu.utils.compare and `anycend compare`."""
