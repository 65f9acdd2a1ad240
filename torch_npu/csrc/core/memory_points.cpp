#include "csrc/core/memory_points.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace npu {
namespace {

struct Points {
  std::atomic<bool> kept{false};
  std::mutex mutex;  // guards all
  std::vector<MemoryPoint> all;
};
Points& points() {
  static Points& p = *new Points;
  return p;
}

}  // namespace

void keep_memory_points() {
  Points& p = points();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.all.clear();
  p.kept = true;
}

std::vector<MemoryPoint> take_memory_points() {
  Points& p = points();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.kept = false;
  return std::exchange(p.all, {});
}

void add_memory_point(const MemoryPoint& point) {
  Points& p = points();
  if (!p.kept) return;
  const std::lock_guard<std::mutex> lock(p.mutex);
  if (p.kept) p.all.push_back(point);
}

}  // namespace npu
