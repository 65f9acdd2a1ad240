// Work that this process has put on streams and that is not done: what a reader in another process must not overtake, and what
// must be over before another process's memory is let go. An event behind each busy stream; none where all are idle.
// What it is not: synchronization. Neither function waits, and an error on a stream stays there for the program.
#pragma once

#include <c10/core/Stream.h>

#include <vector>

#include "csrc/core/event.h"

namespace npu {

// Streams that were used, of all devices (stream.cpp). Not those made elsewhere: their maker may have destroyed them.
std::vector<c10::Stream> made_streams();

using PendingWork = std::vector<PooledEvent>;

// Cost where nothing runs: a query for each stream that was ever used. Streams that are being captured run nothing: left out.
PendingWork pending_work();
// Drops what is done; true when nothing is left.
bool is_done(PendingWork& work);
// Waits until nothing is left, or the process exits. The caller does not hold the GIL: a host callback may need it.
void wait_until_done(PendingWork work);

}  // namespace npu
