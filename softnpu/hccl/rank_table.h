// The rank table file (version 1.0): which rank is which device of which server.
#pragma once

#include <string>
#include <vector>

namespace softnpu::hccl {

struct RankEntry {
  std::string server, device_ip;
  int device;
};

struct RankTable {
  std::vector<RankEntry> ranks;  // by rank
  std::string text;              // the file as it was read: all ranks must have the same
};

// Throws HCCL_E_OPEN_FILE_FAILURE or HCCL_E_PARA naming the JSON path of what is wrong.
RankTable read_rank_table(const char* file);

}  // namespace softnpu::hccl
