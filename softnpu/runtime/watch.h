// What the runtime tells the race detector (softnpu/race) of its streams and tasks, while that is on. Who calls it: stream.cpp,
// event.cpp, copy.cpp, graph.cpp, api_stream.cpp, api_race.cpp. What it is not: the detector.
#pragma once

#include "softnpu/race/race.h"

namespace softnpu {

class Stream;
class Work;

// As the detector knows it.
race::Stream named(Stream& stream);

// A task is about to be accepted. Throws the report of a race that it completes, where ANYCEND_CHECK_EXIT asks for errors.
void watch(Stream& stream, const Work& work);
// The calling thread is about to do it itself.
void watch_host(const char* name, const race::Accesses& accesses);
template <class State>
void watch_host(const char* name, const State& state, race::Tell tell) {
  race::Accesses accesses;
  tell(&state, accesses);
  watch_host(name, accesses);
}

}  // namespace softnpu
