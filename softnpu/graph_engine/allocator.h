// ge::Allocator and ge::MemBlock: memory that a client lends to a graph, stream by stream. Their virtual functions and their layout are
// part of the interface: the client derives from both.
#pragma once

#include <cstddef>

namespace ge {

class MemBlock;

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual MemBlock* Malloc(size_t bytes) = 0;
  virtual void Free(MemBlock* block) = 0;
  virtual MemBlock* MallocAdvise(size_t bytes, void* address) = 0;
};

class MemBlock {
 public:
  MemBlock(Allocator& allocator, void* address, size_t bytes)
      : allocator_(allocator), address_(address), owners_(1), bytes_(bytes) {}
  virtual ~MemBlock() = default;
  void* address() const { return address_; }
  // The last owner gives it back.
  void release() {
    if (owners_ > 0 && --owners_ == 0) allocator_.Free(this);
  }

 private:
  Allocator& allocator_;
  void* address_;
  size_t owners_;
  size_t bytes_;
};

}  // namespace ge
