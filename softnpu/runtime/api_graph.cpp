// Exports: graph capture and replay (aclmdlRI*).
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "acl/api.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

namespace {

void* new_graph() {
  static std::atomic<uint32_t> next_id{1};
  Graph* g = slab<Graph>().take();
  std::lock_guard lock(g->mutex);
  g->list.reset();
  g->capture.reset();
  g->name.clear();
  g->id = next_id++;
  return slab<Graph>().publish(g);
}

void begin(Stream& stream, void* graph, aclmdlRICaptureMode mode) {
  if (unsigned(mode) > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    fail(ACL_ERROR_INVALID_PARAM, "%d is not a capture mode", int(mode));
  if (stream.capture().load()) fail(ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured already");
  Graph& g = slab<Graph>().get(graph);
  std::lock_guard lock(g.mutex);
  if (g.capture || g.list) fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph has been captured already");
  g.capture = std::make_unique<Capture>(stream, graph, mode);
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
      slab<Graph>().recycle(&slab<Graph>().remove(graph));
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
    Capture* capture = s.capture().load();
    if (capture == nullptr) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the stream is not being captured");
    if (&capture->origin() != &s)
      fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture was begun on another stream");
    capture->check_thread();
    void* handle = capture->graph();
    Graph& g = slab<Graph>().get(handle);
    std::unique_lock lock(g.mutex);
    try {
      g.list = capture->finish();
    } catch (...) {
      g.capture.reset();
      lock.unlock();
      slab<Graph>().recycle(&slab<Graph>().remove(handle));
      throw;
    }
    g.capture.reset();
    *modelRI = handle;
  });
}

SOFTNPU_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  return guarded(__func__, [&] {
    Capture* capture = stream_of(stream).capture().load();
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

SOFTNPU_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  return guarded(__func__, [&] { replay(list_of(modelRI), stream_of(stream)); });
}

SOFTNPU_EXPORT aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(nullptr);
    replay(list_of(modelRI), s);
    s.synchronize(deadline_after_ms(timeout), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  });
}

// A replay in flight keeps the tasks; the handle is gone at once.
SOFTNPU_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  return guarded(__func__, [&] {
    Graph& g = slab<Graph>().get(modelRI);
    std::shared_ptr<TaskList> dropped;
    {
      std::lock_guard lock(g.mutex);
      if (g.capture) fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is being captured: end the capture first");
      dropped = std::move(g.list);
    }
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
    auto list = list_of(modelRI);
    printf("graph %u: %zu tasks\n", slab<Graph>().get(modelRI).id, list->size());
    for (size_t i = 0; i < list->size(); ++i) printf("  %zu %s\n", i, (*list)[i].name());
    fflush(stdout);
  });
}

// A JSON list of the tasks, in the order of a replay. Their names are identifiers: nothing to escape.
SOFTNPU_EXPORT aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags) {
  return guarded(__func__, [&] {
    need(path, "path");
    if (flags) fail(ACL_ERROR_INVALID_PARAM, "flags is %u: it must be 0", flags);
    auto list = list_of(modelRI);
    FILE* file = fopen(path, "w");
    if (!file) fail(ACL_ERROR_INVALID_FILE, "cannot write %s: %s", path, strerror(errno));
    fprintf(file, "[");
    for (size_t i = 0; i < list->size(); ++i)
      fprintf(file, "%s\n  {\"index\": %zu, \"name\": \"%s\"}", i ? "," : "", i, (*list)[i].name());
    fprintf(file, "\n]\n");
    if (fclose(file) != 0) fail(ACL_ERROR_INVALID_FILE, "cannot write %s: %s", path, strerror(errno));
  });
}
