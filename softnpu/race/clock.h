// Vector clocks. A lane is whoever acts in an order of its own: lane 0 is the host (all its threads: order between them is not looked
// for), the others are streams. A lane's n-th action has the time n; a clock says up to which time of each lane everything has happened.
// Who uses it: the detector and the shadow memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace softnpu::race {

class Clock {
 public:
  uint64_t of(uint32_t lane) const noexcept { return lane < times_.size() ? times_[lane] : 0; }
  uint32_t lanes() const noexcept { return static_cast<uint32_t>(times_.size()); }
  uint64_t tick(uint32_t lane) {
    if (lane >= times_.size()) times_.resize(lane + 1);
    return ++times_[lane];
  }
  void reach(uint32_t lane, uint64_t time) {
    if (lane >= times_.size()) times_.resize(lane + 1);
    times_[lane] = std::max(times_[lane], time);
  }
  bool covers(const Clock& other) const noexcept {
    for (size_t i = 0; i < other.times_.size(); ++i)
      if (other.times_[i] > of(static_cast<uint32_t>(i))) return false;
    return true;
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

 private:
  std::vector<uint64_t> times_;
};

}  // namespace softnpu::race
