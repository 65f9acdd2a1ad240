"""Paths of the scripts on ModelArts: what goes where is in path_mapping_config.py. Written by pytorch_gpu2npu -m."""
