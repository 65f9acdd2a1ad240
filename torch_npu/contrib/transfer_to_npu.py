"""Importing this runs a script written for CUDA on the npu: `from torch_npu.contrib import transfer_to_npu`.

What it does is in torch_npu/contrib/_cuda; docs/transfer_to_npu.md tells the user. `disable()` undoes it,
`enable()` does it again, `with disabled():` runs a block as if it had not been imported. `rewrite_modules()` also
rewrites modules imported after it, and `python -m torch_npu.contrib.transfer_to_npu SCRIPT ...` the script too.
"""

from torch_npu.contrib._cuda import disable, disabled, enable, is_enabled, replaced, rewrite_modules

__all__ = ["disable", "disabled", "enable", "is_enabled", "replaced", "rewrite_modules"]

enable()

if __name__ == "__main__":
    import sys

    from torch_npu.contrib._cuda import rewrite

    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m torch_npu.contrib.transfer_to_npu SCRIPT [arguments of the script]")
    rewrite.run_script(sys.argv[1:])
