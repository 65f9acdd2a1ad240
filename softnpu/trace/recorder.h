// One profile of aclprof, or of `msprof command`: the runtime's records, written into a folder PROF_<n>_<time>_<letters> that
// `msprof --export=on` reads. What it is not: the C ABI (aclprof.cpp), the tables made of it (softnpu/tools/msprof).
//
// PROF_*/host/info.json        the process, and what was asked for
// PROF_*/host/start_info       one moment in two clocks: the framework's times are the second's
// PROF_*/host/data/records     records one behind the other: kind and bytes of what follows (uint32 each), then a struct of
//                              record_file.h; texts are numbers of earlier records of kind text
// PROF_*/device_<n>/           one for each device of the profile, as the framework counts them
//
// Thread-safe. Its locks: turn_ before mutex_, which is a leaf; neither is held while the runtime is called.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "softnpu/runtime/trace.h"

namespace softnpu::prof {

struct Choice {
  std::string folder;          // in which PROF_* is made
  std::vector<int> devices{};  // empty: all
  bool tasks = true, calls = true, tensors = true, marks = true;
  int memory_hz = 0;  // how often to look at the devices' memory; 0: never
};

class Recorder {
 public:
  static Recorder& get();

  // Throws Error where a profile runs already, or PROF_* cannot be made.
  void begin(const Choice& choice);
  // The same, with PROF_* made at the first record: a process that uses no NPU leaves none. Ends with the process.
  void begin_when_used(const std::string& folder) noexcept;
  // Writes the rest; throws Error where no profile runs, or the disk took not all.
  void end();
  bool running() const noexcept { return running_.load(std::memory_order_acquire); }
  // In a forked child: the parent's file is not its own. Where there was none yet, the child has its own, and writes each record at once: children
  // of fork mostly end by _exit, which calls nobody.
  void forget() noexcept;

  void called(const trace::Call& call) noexcept;
  void ran(const trace::Record& record) noexcept;
  void marked(const trace::Mark& mark) noexcept;

 private:
  void open();  // mutex_ held
  // mutex_ held; `whole`: all records so far are in the file; `bytes` of it, once it is ended
  void describe_process(bool whole, int64_t bytes = -1) const;
  bool takes(int device) const noexcept;                 // mutex_ held
  bool ready() noexcept;                                 // mutex_ held
  uint32_t text(const char* what);                       // mutex_ held
  uint32_t text(const std::string& what);                // mutex_ held
  void forget_texts() noexcept;                          // mutex_ held
  void put(uint32_t kind, const void* at, size_t size);  // mutex_ held
  void write_out() noexcept;                             // mutex_ held
  void lose() noexcept;                                  // mutex_ held
  void clocks();                                         // mutex_ held
  void look_at_memory() noexcept;
  void sample();
  void stop_sampling();  // mutex_ not held

  std::mutex turn_;  // one begin or end at a time
  std::thread sampler_;
  std::atomic<bool> running_{false};
  std::atomic<bool> foreign_{false};  // the file is the parent's

  std::mutex mutex_;  // guards what follows
  std::condition_variable stopping_;
  bool stop_ = false;
  Choice choice_;
  uint32_t devices_ = 0;  // of the process, where the memory of all is looked at
  std::string path_;      // PROF_*; empty before it is made
  int file_ = -1;
  bool lost_ = false;   // a record, for want of memory or disk
  bool full_ = false;   // the disk: nothing is written any more
  bool eager_ = false;  // each record is written at once
  std::vector<char> waiting_;
  uint32_t last_text_ = 0;  // its number
  size_t text_bytes_ = 0;   // of texts_
  std::unordered_map<std::string, uint32_t> texts_;
  std::unordered_map<const void*, uint32_t> interned_;
  std::set<int> seen_;
};

}  // namespace softnpu::prof
