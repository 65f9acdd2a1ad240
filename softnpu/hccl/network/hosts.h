// Which ranks of a communicator run on which host, in an order that all of them agree on: hosts by their lowest rank.
#pragma once

#include <cstdint>
#include <vector>

#include "softnpu/hccl/member.h"

namespace softnpu::hccl {

class Hosts {
 public:
  Hosts(const std::vector<Member>& members, uint32_t rank) : of_(members.size()) {
    for (uint32_t r = 0; r < members.size(); ++r) {
      uint32_t h = 0;
      while (h < ranks_.size() && members[ranks_[h][0]].host != members[r].host) ++h;
      if (h == ranks_.size()) ranks_.emplace_back();
      ranks_[h].push_back(r);
      of_[r] = h;
    }
    mine_ = of_[rank];
  }
  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }
  bool several() const { return ranks_.size() > 1; }
  uint32_t mine() const { return mine_; }
  uint32_t of(uint32_t rank) const { return of_[rank]; }
  bool here(uint32_t rank) const { return of_[rank] == mine_; }
  const std::vector<uint32_t>& on(uint32_t host) const { return ranks_[host]; }
  const std::vector<uint32_t>& here() const { return ranks_[mine_]; }
  // Speaks for the host.
  uint32_t leader(uint32_t host) const { return ranks_[host][0]; }
  // Which rank of a host does its part of the piece with this number.
  uint32_t owner(uint32_t host, uint32_t piece) const { return ranks_[host][piece % ranks_[host].size()]; }

 private:
  std::vector<std::vector<uint32_t>> ranks_;  // by host
  std::vector<uint32_t> of_;                  // by rank
  uint32_t mine_;
};

}  // namespace softnpu::hccl
