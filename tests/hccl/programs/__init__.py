"""What ranks run: f(rank, *args) by name from Job.run. A check that fails here raises, and the test fails with it."""

from __future__ import annotations

from tests.hccl.programs.failures import (
    MISMATCHES,
    absent,
    all_reduce_until_error,
    call_in_forked_child,
    counts_beyond_memory,
    files_in_a_childs_child,
    fork_sleeper,
    mismatched,
    refused,
    watch_async_error,
)
from tests.hccl.programs.faults import end, phase_destroy, phase_first, phase_init, phase_large, phase_replay, phase_sub
from tests.hccl.programs.hosts import (
    absent_from_start,
    all_to_all_until_it_fails,
    listening,
    mapped,
    munmap_code,
    not_sevens,
    own_bits,
    reach,
    receive_from_the_gone,
    send_and_exit,
)
from tests.hccl.programs.membership import (
    bad_config,
    descriptors,
    exit_now,
    in_one_process,
    join_table,
    join_table_only,
    join_without_a_place,
    join_world,
    leave,
    make_root,
    make_sub,
    not_a_member,
    process_settings,
    resume,
    stale_handle,
    sub_communicators,
    try_all,
    try_sub,
)
from tests.hccl.programs.messages import many_messages, messages_of_the_host, mismatched_message, ring
from tests.hccl.programs.moves import (
    all_gather,
    all_gather_v,
    all_to_all,
    all_to_all_v,
    broadcast,
    move_matrix,
    offsets_beyond_memory,
    scatter,
    uneven_matrix,
)
from tests.hccl.programs.order import (
    destroyed_while_waiting,
    limit_changed,
    made_and_destroyed,
    messages_of_a_graph,
    receive_in_vain,
    replay_of_the_destroyed,
    replays_beside_calls,
    resumed_over_waiting,
    resumed_while_another_thread_calls,
    small_beside_big,
)
from tests.hccl.programs.reductions import (
    all_reduce,
    all_reduce_matrix,
    all_reduce_once,
    reduce_matrix,
    reduce_scatter,
    reduce_scatter_v,
    reduce_to_root,
)
from tests.hccl.programs.streams import barrier_waits, chained, host_memory, two_communicators, two_streams
