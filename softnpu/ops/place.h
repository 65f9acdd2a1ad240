// Results made where they belong. ATen's convolutions, normalizations and their gradients return fresh tensors; copying
// them into the caller's memory costs a third of a small CNN's step. While a Place lives, a request of its thread for
// exactly an output's bytes may get the output's memory, so that the result is there already.
//
// Which request: oneDNN asks for intermediates of the same size before the result. The first call with some shapes only
// watches and remembers how many requests came before the one that became the result; later calls give the memory to that
// one. It stays right whoever gets the memory: put() copies what is not where it should be, and then watches again.
//
// How: kernel_allocator.h asks the thread's Place first.
// Not thread-safe; one at a time on a thread, from before the call to after put().
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <initializer_list>
#include <vector>

namespace softnpu::ops::kernels {

// Whether they share bytes, or may: of strides with gaps, what lies in the gaps counts.
bool overlaps(const at::Tensor& a, const at::Tensor& b);

class Place {
 public:
  // Outputs may be undefined. One that shares memory with an operand is left out: it might be written before it is read.
  // The first of 16-bit outputs, if it is computed in fp32, is scratch memory (Slot::kResult).
  Place(std::initializer_list<at::Tensor*> outputs, std::initializer_list<at::Tensor> operands);
  Place(const Place&) = delete;
  ~Place();

  // What was computed, in the outputs' order, to the outputs. Undefined ones are left out.
  void put(std::initializer_list<at::Tensor> results);

  // For the allocator: memory for a request, or null; `made` tells what it got instead. Does this memory belong to us?
  void* take(size_t bytes) noexcept;
  void made(size_t bytes, const void* memory);
  bool owns(const void* memory) const noexcept;

 private:
  struct Target {
    at::Tensor* output = nullptr;
    at::Tensor room;         // the output, or scratch, which is this Place's alone where it is too large to be kept
    void* memory = nullptr;  // of the room
    size_t bytes = 0;        // 0: not offered
    int turn = 0;            // the request of these bytes that gets the memory; 0: watch
    int seen = 0;            // requests so far
    std::vector<const void*> made;  // what they got, while watching
  };
  static constexpr size_t kMost = 3;
  void learn(const std::vector<at::Tensor>& results);

  std::array<Target, kMost> targets_;
  size_t count_ = 0;
  uint64_t call_;  // stands for the shapes
};

}  // namespace softnpu::ops::kernels
