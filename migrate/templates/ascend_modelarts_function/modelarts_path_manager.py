"""Maps paths of the scripts to paths on ModelArts and copies between the container and object storage.

One object a process; several processes on one machine share one copy of the inputs. Copying needs moxing, which
ModelArts has; without it an object storage address is an error that says so.
"""

import atexit
import fcntl
import hashlib
import os

from . import path_mapping_config as config

_REMOTE = ("obs://", "s3://")


def _copy(source, target):
    try:
        import moxing
    except ImportError as error:
        raise RuntimeError(
            f"copying {source} to {target} needs moxing (run on ModelArts, or map to a folder)"
        ) from error
    moxing.file.copy_parallel(source, target)


class ModelArtsPathManager:
    """ModelArtsPathManager().get_path(path) is where `path` really lies."""

    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._start()
        return cls._instance

    def _start(self):
        self._ready = set()
        inputs = self._rows(config.input_path_mapping, "input")
        outputs = self._rows(config.output_path_mapping, "output")
        # The longest prefix decides.
        self._mapping = sorted(inputs + outputs, key=lambda row: len(row[0]), reverse=True)
        for _, target, local, kind in outputs:
            if kind == "output" and target.startswith(_REMOTE):
                atexit.register(self._upload, local, target)

    @staticmethod
    def _rows(mapping, kind):
        rows = []
        for source, target in mapping.items():
            target = os.path.expandvars(target)
            local = target
            if target.startswith(_REMOTE):
                name = hashlib.sha256(target.encode()).hexdigest()[:12]
                local = os.path.join(config.local_root, kind, name, os.path.basename(target.rstrip("/")))
            rows.append((os.path.abspath(source), target, local, kind))
        return rows

    def get_path(self, path):
        """What is no path (an open file, a number) and what is not mapped comes back as it is."""
        if not isinstance(path, (str, os.PathLike)):
            return path
        text = os.fspath(path)
        if not isinstance(text, str) or text.startswith(_REMOTE):
            return path
        wanted = os.path.abspath(text)
        for source, target, local, kind in self._mapping:
            if wanted == source or wanted.startswith(source + os.sep):
                self._prepare(target, local, kind)
                found = local + wanted[len(source) :]
                return found if isinstance(path, str) else type(path)(found)
        return path

    def _prepare(self, target, local, kind):
        if local in self._ready:
            return
        if kind == "output":
            os.makedirs(local, exist_ok=True)
        elif target.startswith(_REMOTE):
            self._download(target, local)
        self._ready.add(local)

    @staticmethod
    def _download(target, local):
        os.makedirs(os.path.dirname(local), exist_ok=True)
        done = local + ".done"
        with open(local + ".lock", "w") as lock:  # the first process copies, the others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(done):
                _copy(target, local)
                with open(done, "w"):
                    pass

    @staticmethod
    def _upload(local, target):
        if int(os.environ.get("RANK", os.environ.get("RANK_ID", "0"))) == 0 and os.path.isdir(local):
            _copy(local, target)
