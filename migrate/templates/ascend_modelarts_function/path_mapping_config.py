"""Edit this file: where the folders that the scripts name are on ModelArts.

A value is a folder of the container, or an object storage address (obs://bucket/folder), which is copied: inputs before
their first use, outputs when the program ends. A variable of the environment may be used: "${DATA_URL}/imagenet".
"""

# Read by the scripts.
input_path_mapping = {
    # "/data/imagenet": "obs://bucket/imagenet",
}

# Written by the scripts.
output_path_mapping = {
    # "./checkpoints": "obs://bucket/run1/checkpoints",
}

# Where copies are kept in the container.
local_root = "/cache"
