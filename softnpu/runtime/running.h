// What a stream does now, for the message of who has waited too long: the task that runs, and the stream that it waits for.
// What it is not: records for profilers (trace.h). Who calls it: stream.cpp writes, failure.cpp reads, from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

namespace softnpu {

class Stream;

// A task's name, cut to 47 bytes: a copy, since the task may end, and its name go, while another thread reads it.
class RunningName {
 public:
  void set(const char* name) noexcept {
    char text[sizeof words_] = {};
    if (name) strncpy(text, name, sizeof text - 1);
    uint64_t words[kWords];
    memcpy(words, text, sizeof words);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  std::string get() const {
    uint64_t words[kWords];
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    const auto* text = reinterpret_cast<const char*>(words);
    return std::string(text, strnlen(text, sizeof words));
  }

 private:
  static constexpr size_t kWords = 6;
  std::atomic<uint64_t> words_[kWords] = {};
};

// While it lives, the task of that name runs; null: none that is worth a name.
class Runs {
 public:
  Runs(RunningName& place, const char* name) noexcept : place_(name ? &place : nullptr) {
    if (place_) place_->set(name);
  }
  ~Runs() {
    if (place_) place_->set(nullptr);
  }
  Runs(const Runs&) = delete;

 private:
  RunningName* place_;
};

// While it lives, the stream waits for `source`.
class Behind {
 public:
  Behind(std::atomic<const Stream*>& place, const Stream& source) noexcept : place_(place) {
    place_.store(&source, std::memory_order_relaxed);
  }
  ~Behind() { place_.store(nullptr, std::memory_order_relaxed); }
  Behind(const Behind&) = delete;

 private:
  std::atomic<const Stream*>& place_;
};

}  // namespace softnpu
