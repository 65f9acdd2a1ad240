"""What torch-tb-profiler-ascend reads of a folder of profiles: python tb_read.py FOLDER. Prints RESULT and, by worker,
JSON."""

import json
import sys


def main() -> None:
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader

    with io.Cache() as cache:
        run = RunLoader("run", sys.argv[1], cache, "Ascend").load()
    said = {}
    for (worker, _), profile in run.profiles.items():
        known = {name: value for name, value in vars(profile).items() if not name.startswith("_")}
        said[worker] = known | {"views": [view.display_name for view in profile.views]}
    print("RESULT", json.dumps(said, default=str))


if __name__ == "__main__":  # the loader spawns processes, which import this file
    main()
