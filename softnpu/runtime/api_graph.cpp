// Exports: graph capture and replay (aclmdlRI*).
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

namespace {

void begin(Stream& stream, void* graph, aclmdlRICaptureMode mode) {
  if (unsigned(mode) > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    fail(ACL_ERROR_INVALID_PARAM, "%d is not a capture mode", int(mode));
  Graph& g = slab<Graph>().get(graph);
  std::lock_guard lock(g.mutex);
  if (g.capturing || g.list) fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph has been captured already");
  Capture::begin(stream, graph, mode);
  g.capturing = true;
}

std::shared_ptr<TaskList> list_of(aclmdlRI graph) {
  Graph& g = slab<Graph>().get(graph);
  std::lock_guard lock(g.mutex);
  if (!g.list) fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph's capture has not ended");
  return g.list;
}

}  // namespace

SOFTNPU_EXPORT aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    if (&s == &s.context()->default_stream())
      fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream cannot be captured");
    void* graph = new_graph();
    try {
      begin(s, graph, mode);
    } catch (...) {
      drop_graph(graph);
      throw;
    }
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode) {
  return guarded(__func__, [&] { begin(stream_of(stream), modelRI, mode); });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  return guarded(__func__, [&] {
    need(modelRI, "modelRI");
    Stream& s = stream_of(stream);
    const auto capture = Capture::of(s);
    if (capture == nullptr) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the stream is not being captured");
    auto list = capture->finish(s);
    Graph& g = slab<Graph>().get(capture->graph());
    std::lock_guard lock(g.mutex);
    g.list = std::move(list);
    g.capturing = false;
    *modelRI = capture->graph();
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  return guarded(__func__, [&] {
    auto capture = Capture::of(stream_of(stream));
    if (capture && capture->updated()) capture.reset();  // no graph comes of it
    if (status)
      *status = !capture           ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
                : capture->valid() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
                                   : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    if (modelRI) *modelRI = capture ? capture->graph() : nullptr;
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  return guarded(__func__, [&] {
    need(mode, "mode");
    if (unsigned(*mode) > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
      fail(ACL_ERROR_INVALID_PARAM, "%d is not a capture mode", int(*mode));
    *mode = exchange_capture_mode(*mode);
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    const auto capture = Capture::of(s);
    if (!capture)
      fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
           "the stream is not being captured: a task group is begun between the begin and the end of a capture");
    capture->begin_group(s);
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    Stream& s = stream_of(stream);
    const auto capture = Capture::of(s);
    if (!capture) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the stream is not being captured: no task group has begun");
    *handle = capture->end_group(s);
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    auto group = group_of(handle);
    if (!group->ready())
      fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph of the task group is being captured: end the capture first");
    if (group->device() != s.device())
      fail(ACL_ERROR_RT_STREAM_CONTEXT, "the task group was captured on device %d: update it on a stream of that one",
           group->device());
    Capture::begin_update(s, std::move(group));
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    const auto capture = Capture::of(s);
    if (!capture || !capture->updated())
      fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
           "the stream updates no task group: begin with aclmdlRICaptureTaskUpdateBegin");
    TaskGroup::update(capture->updated(), capture->finish_update(), s);
  });
}

SOFTNPU_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  return guarded(__func__, [&] { replay(list_of(modelRI), stream_of(stream)); });
}

SOFTNPU_EXPORT aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  return guarded(__func__, [&] {
    const int64_t deadline = deadline_of(timeout);
    Stream& s = stream_of(nullptr);
    s.refuse_in_callback();
    replay(list_of(modelRI), s);
    s.synchronize(deadline, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  });
}

// A replay in flight keeps the tasks; the handle is gone at once.
SOFTNPU_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  return guarded(__func__, [&] {
    Graph& g = slab<Graph>().get(modelRI);
    std::shared_ptr<TaskList> dropped;
    {
      std::lock_guard lock(g.mutex);
      if (g.capturing) fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is being captured: end the capture first");
      dropped = std::move(g.list);
    }
    if (dropped) dropped->close_groups();
    slab<Graph>().remove(modelRI);
    slab<Graph>().recycle(&g);
  });
}

SOFTNPU_EXPORT aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  return guarded(__func__, [&] {
    need(modelRIId, "modelRIId");
    *modelRIId = slab<Graph>().get(modelRI).id;
  });
}

SOFTNPU_EXPORT aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  return guarded(__func__, [&] {
    need(name, "name");
    Graph& g = slab<Graph>().get(modelRI);
    std::lock_guard lock(g.mutex);
    g.name = name;
  });
}

SOFTNPU_EXPORT aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  return guarded(__func__, [&] {
    need(name, "name");
    Graph& g = slab<Graph>().get(modelRI);
    std::lock_guard lock(g.mutex);
    snprintf(name, maxLen, "%s", g.name.c_str());
  });
}

SOFTNPU_EXPORT aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  return guarded(__func__, [&] {
    const auto list = list_of(modelRI);
    auto& tasks = list->tasks;
    printf("graph %u: %zu tasks\n", slab<Graph>().get(modelRI).id, tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) printf("  %zu %s\n", i, tasks[i].name());
    fflush(stdout);
  });
}

namespace {

// As it stands in JSON between quotation marks.
std::string quoted(const char* text) {
  std::string made;
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') made += '\\';
    if (static_cast<unsigned char>(*text) >= 0x20) made += *text;
  }
  return made;
}

}  // namespace

// The tasks as events of a Chrome trace, in the order of a replay, which is their time: what they take is not known. With flags 1 also
// the line that captured each, where the client has told it.
SOFTNPU_EXPORT aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags) {
  return guarded(__func__, [&] {
    need(path, "path");
    if (flags > 1) fail(ACL_ERROR_INVALID_PARAM, "flags is %u: 0, or 1 for all that is known", flags);
    const uint32_t id = slab<Graph>().get(modelRI).id;
    const auto list = list_of(modelRI);
    auto& tasks = list->tasks;
    FILE* file = fopen(path, "w");
    if (!file) fail(ACL_ERROR_INVALID_FILE, "cannot write %s: %s", path, strerror(errno));
    fprintf(file, "[");
    for (size_t i = 0; i < tasks.size(); ++i) {
      const char* place = flags && i < list->places.size() ? list->places[i] : nullptr;
      fprintf(file,
              "%s\n  {\"name\": \"%s\", \"ph\": \"X\", \"pid\": \"graph %u\", \"tid\": \"stream0\", \"ts\": %zu, "
              "\"dur\": 1, "
              "\"args\": {\"Model Id\": %u, \"Stream Id\": 0, \"Task Id\": %zu%s%s%s}}",
              i ? "," : "", quoted(tasks[i].name()).c_str(), id, i, id, i, place ? ", \"Place\": \"" : "",
              place ? quoted(place).c_str() : "", place ? "\"" : "");
    }
    fprintf(file, "\n]\n");
    if (fclose(file) != 0) fail(ACL_ERROR_INVALID_FILE, "cannot write %s: %s", path, strerror(errno));
  });
}
