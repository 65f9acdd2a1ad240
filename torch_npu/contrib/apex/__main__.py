"""python -m torch_npu.contrib.apex FOLDER: writes a file there that lets `import apex` find this package."""

from __future__ import annotations

import argparse

from torch_npu.contrib.apex import install

parser = argparse.ArgumentParser(prog="python -m torch_npu.contrib.apex", description=__doc__)
parser.add_argument(
    "folder",
    help="a folder on the script's path: its own, one of PYTHONPATH, or site-packages; made if it is not there",
)
try:
    print(install(parser.parse_args().folder))
except OSError as error:
    parser.exit(1, f"{parser.prog}: {error}\n")
