// The process's one control thread: an epoll loop that answers peers while the ranks compute, and sees at once when one dies.
// What it is not: in the way of data; no byte of a collective passes here.
// Who calls it: peers.cpp, bootstrap_server.cpp, network/control.cpp.
#pragma once

#include <cstdint>
#include <functional>

namespace softnpu::hccl::hub {

using Handler = std::function<void(uint32_t epoll_events)>;

// Runs `work` on the control thread and waits for it; what it throws is thrown here. On the control thread itself: runs it now.
void call(const std::function<void()>& work);

// On the control thread only. What is watched is closed in a forked child.
void watch(int fd, Handler handler);
void unwatch(int fd);

// `work` is called about ten times a second until it returns false.
void every_tick(std::function<bool()> work);

}  // namespace softnpu::hccl::hub
