// See place.h.
#include "softnpu/ops/place.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <unordered_map>

#include "softnpu/ops/kernel_allocator.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/scratch.h"

namespace softnpu::ops::kernels {

namespace {

constexpr size_t kWorthwhile = 4096;  // bytes; smaller results are copied
constexpr uintptr_t kAlignment = 64;  // what torch's own allocator gives
constexpr size_t kRemembered = 4096;  // calls

using Turns = std::array<int, 3>;

// What calls with some shapes do, on this thread.
std::unordered_map<uint64_t, Turns>& remembered() {
  thread_local std::unordered_map<uint64_t, Turns> turns;
  return turns;
}

void mix(uint64_t& hash, const at::Tensor& t) {
  if (!t.defined()) return;
  hash = c10::hash_combine(hash, static_cast<uint64_t>(t.scalar_type()) + 1);
  for (int64_t size : t.sizes()) hash = c10::hash_combine(hash, static_cast<uint64_t>(size));
  for (int64_t stride : t.strides()) hash = c10::hash_combine(hash, static_cast<uint64_t>(stride));
}

bool same_place(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

bool overlaps(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.numel() == 0 || b.numel() == 0) return false;
  const auto begin = [](const at::Tensor& t) { return static_cast<const char*>(t.const_data_ptr()); };
  const auto end = [&](const at::Tensor& t) {
    int64_t last = 0;
    for (int64_t d = 0; d < t.dim(); d++) last += (t.size(d) - 1) * t.stride(d);
    return begin(t) + (last + 1) * static_cast<int64_t>(t.element_size());
  };
  return begin(a) < end(b) && begin(b) < end(a);
}

Place::Place(std::initializer_list<at::Tensor*> outputs, std::initializer_list<at::Tensor> operands)
    : call_(outputs.size()) {
  for (const at::Tensor& operand : operands) mix(call_, operand);
  for (at::Tensor* output : outputs) mix(call_, *output);
  const auto known = remembered().find(call_);
  for (at::Tensor* output : outputs) {
    const size_t i = count_++;
    Target& target = targets_.at(i);
    target.output = output;
    if (!output->defined() || !output->is_non_overlapping_and_dense() || (is_narrow(*output) && i != 0)) continue;
    if (std::any_of(operands.begin(), operands.end(), [&](const at::Tensor& t) { return overlaps(*output, t); }))
      continue;
    target.room = is_narrow(*output) ? scratch(*output, Slot::kResult) : *output;
    target.memory = target.room.mutable_data_ptr();
    if (target.room.nbytes() < kWorthwhile || reinterpret_cast<uintptr_t>(target.memory) % kAlignment != 0) continue;
    target.bytes = target.room.nbytes();
    target.turn = known == remembered().end() ? 0 : known->second[i];
  }
  KernelMemory::of_thread().place = this;
}

Place::~Place() { KernelMemory::of_thread().place = nullptr; }

void* Place::take(size_t bytes) noexcept {
  for (size_t i = 0; i < count_; i++) {
    Target& target = targets_[i];
    if (target.bytes == bytes && bytes != 0 && ++target.seen == target.turn) return target.memory;
  }
  return nullptr;
}

void Place::made(size_t bytes, const void* memory) {
  for (size_t i = 0; i < count_; i++) {
    if (targets_[i].bytes == bytes && bytes != 0 && targets_[i].turn == 0) targets_[i].made.push_back(memory);
  }
}

bool Place::owns(const void* memory) const noexcept {
  return std::any_of(targets_.begin(), targets_.begin() + count_,
                     [&](const Target& t) { return t.bytes != 0 && t.memory == memory; });
}

// A watched call tells which request became each result; one that went wrong is watched again.
void Place::learn(const std::vector<at::Tensor>& results) {
  Turns turns{};
  bool news = false;
  for (size_t i = 0; i < results.size(); i++) {
    const Target& target = targets_.at(i);
    turns[i] = target.turn;
    if (!results[i].defined() || target.bytes == 0) continue;
    const void* memory = results[i].const_data_ptr();
    if (target.turn == 0) {
      // The last: memory that an intermediate gave back may come again.
      const auto last = std::find(target.made.rbegin(), target.made.rend(), memory);
      turns[i] = static_cast<int>(target.made.rend() - last);
    } else if (memory != target.memory) {
      turns[i] = 0;
    }
    news = news || turns[i] != target.turn;
  }
  if (!news) return;
  if (remembered().size() >= kRemembered) remembered().clear();
  remembered()[call_] = turns;
}

void Place::put(std::initializer_list<at::Tensor> results) {
  KernelMemory::of_thread().place = nullptr;
  std::vector<at::Tensor> from(results);
  learn(from);
  // A result in another output's memory, or in its own with other strides, moves away before anything is written.
  for (size_t i = 0; i < from.size(); i++) {
    for (size_t k = 0; k < count_ && from[i].defined(); k++) {
      const at::Tensor& output = *targets_[k].output;
      if (overlaps(from[i], output) && !(i == k && same_place(from[i], output))) from[i] = from[i].clone();
    }
  }
  for (size_t i = 0; i < from.size(); i++) {
    at::Tensor& output = *targets_[i].output;
    if (from[i].defined() && output.defined() && !same_place(from[i], output)) kernels::put(output, from[i]);
  }
}

}  // namespace softnpu::ops::kernels
