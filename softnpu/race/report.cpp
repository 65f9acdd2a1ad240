#include "softnpu/race/report.h"

#include <algorithm>

#include "softnpu/race/words.h"

namespace softnpu::race {
namespace {

std::string bytes(uintptr_t begin, uintptr_t end) { return std::to_string(end - begin) + " bytes at " + hex(begin); }

std::string name(const Lane& lane) {
  if (lane.host) return "the host";
  return "stream " + std::to_string(lane.stream) + " (npu:" + std::to_string(lane.device) + ")";
}

std::string touch(const char* which, const Touch& t, const Lane& lane) {
  return std::string("\n  ") + which + t.action->name + " on " + name(lane) +
         (t.access.write ? " writes " : " reads ") + bytes(t.access.begin, t.access.end) +
         (t.access.pattern ? ", strided" : "") + "    " + line(t.action->place);
}

std::string process(int pid, int rank) {
  return "process " + std::to_string(pid) + (rank < 0 ? "" : " (rank " + std::to_string(rank) + ")");
}

std::string block(const Touch& t) {
  return bytes(t.block->begin, t.block->end) + ", allocated at " + line(t.block->place);
}

// The block was freed in between, and its memory given out again.
bool reused(const Touch& earlier, const Touch& now) { return earlier.block && now.block && earlier.block != now.block; }

std::string remedy(const Touch& earlier, const Touch& now, const Lane& before, const Lane& after, bool foreign) {
  if (after.host)
    return "the host does not wait for " + name(before) +
           ": call synchronize() of that stream, or of an event recorded after " + earlier.action->name +
           ", before the host touches the memory";
  if (reused(earlier, now) && foreign)
    return "the block was freed while " + name(before) +
           " may still use it, and nobody told the allocator: call record_stream(" + name(before) +
           ") on the tensor before it is freed, or let its own stream wait for " + name(before);
  return name(after) + " does not wait for " + name(before) + ": before " + now.action->name +
         " call wait_stream() of the former with the latter, or record an event after " + earlier.action->name +
         " and call wait_event() of the former";
}

}  // namespace

std::string report_text(const Touch& earlier, const Touch& now, const Lane& before, const Lane& after,
                        const Lane& owner, bool captured) {
  const bool foreign = owner.device != before.device || owner.stream != before.stream;
  std::string text = std::string(now.action->name) + " and " + earlier.action->name +
                     " touch the same memory, and nothing orders them" + (captured ? " in the captured graph" : "");
  text += touch("first   ", earlier, before) + touch("second  ", now, after);
  text += "\n  memory  " +
          bytes(std::max(earlier.access.begin, now.access.begin), std::min(earlier.access.end, now.access.end));
  if (reused(earlier, now))
    text += "; then a part of " + block(earlier) + "; now of " + block(now);
  else if (now.block)
    text += " of a block of " + block(now);
  return text + "\n  missing " + remedy(earlier, now, before, after, foreign);
}

std::string report_text(const Stranger& earlier, uintptr_t begin, uintptr_t end, const Touch& now, const Lane& after,
                        int pid, int rank) {
  const Ledger::Entry& e = earlier.entry;
  const std::string before = name(earlier.lane) + " of " + process(earlier.pid, earlier.rank);
  const std::string here = name(after) + " of " + process(pid, rank);
  const auto touch = [](const char* which, const std::string& what, const std::string& whose, bool write,
                        uintptr_t from, uintptr_t to, bool strided, const char* place) {
    return std::string("\n  ") + which + what + " on " + whose + (write ? " writes " : " reads ") + bytes(from, to) +
           (strided ? ", strided" : "") + "    " + line(place && *place ? place : nullptr);
  };
  std::string text = std::string(now.action->name) + " and " + e.name + " of process " + std::to_string(earlier.pid) +
                     " touch the same memory, and nothing orders them";
  text += touch("first   ", e.name, before, e.write, begin, end, e.strided, e.place);
  text += touch("second  ", now.action->name, here, now.access.write, now.access.begin, now.access.end,
                now.access.pattern != nullptr, now.action->place);
  text += "\n  memory  " + bytes(std::max(begin, now.access.begin), std::min(end, now.access.end)) + " as process " +
          std::to_string(pid) + " has them";
  if (now.block)
    text += ", of a block of " + block(now);
  else if (e.block_end)
    text += ", of a block of " + std::to_string(e.block_end - e.block_begin) + " bytes that process " +
            std::to_string(earlier.pid) + " allocated at " + line(*e.block_place ? e.block_place : nullptr);
  return text + "\n  missing " + here + " does not wait for " + before + ": let process " +
         std::to_string(earlier.pid) + " call synchronize() after " + e.name + " before it tells process " +
         std::to_string(pid) + " to go on, or record an event (torch.npu.Event(interprocess=True)) after " + e.name +
         " and call wait_event() of it before " + now.action->name;
}

}  // namespace softnpu::race
