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

}  // namespace softnpu::race
