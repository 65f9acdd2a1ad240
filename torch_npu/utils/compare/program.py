"""A whole program is compared: from the import of torch_npu to the end of the process. Who uses it: _startup.py.

Each process leaves process-<rank>-<pid>.json in the folder; `anycend compare` puts them together. One that ends by
os._exit() or a signal leaves nothing, and so does one that used no npu. A forked child begins with findings of its own;
multiprocessing's ends with its finalizers, not with atexit's.
"""

from __future__ import annotations

import atexit
import json
import os
from multiprocessing import util
from pathlib import Path

from torch_npu.utils.compare import Compare


def begin(name: str) -> None:
    """Raises ValueError where the folder is not one that `anycend compare` made."""
    folder = Path(name)
    try:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"npu: ANYCEND_COMPARE={name}: {error}; `anycend compare` sets it, unset it") from None
    context = Compare(rtol=settings["rtol"], limit=settings["limit"], report=False)
    context.__enter__()
    atexit.register(_end, context, folder)
    os.register_at_fork(after_in_child=context.begin_anew)
    util.register_after_fork(context, lambda same: util.Finalize(same, _end, (same, folder), exitpriority=0))


def _end(context: Compare, folder: Path) -> None:
    found = context.stop()
    if found.calls:
        found.save(folder / f"process-{os.environ.get('RANK', '0')}-{os.getpid()}.json")
