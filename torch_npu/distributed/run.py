"""torch_npu_run: torchrun with the parallel store. All of torchrun's arguments, and

--enable-tiered-parallel-tcpstore=true    workers reach the store through their launcher: one connection a node
"""

from __future__ import annotations

import os
import uuid

from torch.distributed import run as torchrun
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import parse_min_max_nnodes

from torch_npu.distributed import elastic, rendezvous

TORCHRUNS_PORT = 29500  # of several nodes, where none is given


def parse_args(args=None):
    """torchrun's arguments and our own. Sets the environment variable of the tiered mode, which the workers inherit."""
    parser = torchrun.get_args_parser()
    parser.prog = "torch_npu_run"
    parser.set_defaults(rdzv_backend="parallel")
    parser.add_argument(
        "--enable-tiered-parallel-tcpstore",
        "--enable_tiered_parallel_tcpstore",
        choices=["true", "false"],
        default="true" if rendezvous._switch(rendezvous._TIERED) else "false",
        help="Whether workers reach the store through their launcher, over one connection a node (true or false).",
    )
    out = parser.parse_args(args)
    endpoint = out.rdzv_endpoint or out.master_port is not None
    alone = out.rdzv_backend == "parallel" and not endpoint and parse_min_max_nnodes(out.nnodes)[1] == 1
    if out.standalone or alone:
        # torchrun would take its own store here; any free port, as it does.
        out.standalone, out.rdzv_endpoint, out.rdzv_id = False, "localhost:0", str(uuid.uuid4())
        out.rdzv_backend = "parallel"
    elif out.rdzv_backend == "parallel" and not out.rdzv_endpoint:
        out.rdzv_endpoint = f"{out.master_addr or '127.0.0.1'}:{out.master_port or TORCHRUNS_PORT}"
        rank = f"rank={out.node_rank}"
        out.rdzv_conf = f"{out.rdzv_conf},{rank}" if out.rdzv_conf else rank
        out.master_addr, out.node_rank = None, 0
    os.environ[rendezvous._TIERED] = out.enable_tiered_parallel_tcpstore
    return out


def main(args=None) -> None:
    """torch_npu_run: torchrun over the parallel store. `args` are the command line's words, sys.argv[1:] where None."""
    # A development build is not installed, so its entry point may be missing. Registering the same twice is nothing.
    rendezvous_handler_registry.register("parallel", elastic.create_handler)
    torchrun.run(parse_args(args))


if __name__ == "__main__":
    main()
