// A stream with the memory that its work uses: the allocator that the client registered for it, or the runtime's. Brings values to the
// device and numbers to the host. One thread at a time. What it is not: the order of nodes (run.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "softnpu/graph_engine/allocator.h"
#include "softnpu/graph_engine/value.h"

namespace softnpu::graph {

// Keeps things alive until streams have passed the points where they were given. One thread at a time.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper();
  void keep(aclrtStream stream, std::vector<std::shared_ptr<const void>> things);

 private:
  struct Kept {
    aclrtEvent passed;
    std::vector<std::shared_ptr<const void>> things;
  };
  std::vector<Kept> kept_;
};

class Lane {
 public:
  // Without an allocator its end waits for the stream.
  Lane(aclrtStream stream, std::shared_ptr<ge::Allocator> allocator, Keeper& keeper)
      : stream_(stream), allocator_(std::move(allocator)), keeper_(keeper) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  aclrtStream stream() const { return stream_; }
  // Memory that may be given back as soon as what uses it is queued on this stream.
  std::shared_ptr<Block> allocate(size_t bytes);
  // Where the value's first element is, after what is queued so far; what lies on the host alone is copied.
  void* address(const Value& value);
  // The storage's bytes. Waits for the stream if only the device has them.
  const std::string& bytes(const Value& value);
  // Lives until the stream has passed this point.
  void keep(std::shared_ptr<const void> thing) { kept_.push_back(std::move(thing)); }

 private:
  aclrtStream stream_;
  std::shared_ptr<ge::Allocator> allocator_;
  std::vector<std::shared_ptr<const void>> kept_;
  Keeper& keeper_;
};

// Throws Error with the runtime's recent message for a status that is not 0.
void check(int status, const char* function);

}  // namespace softnpu::graph
