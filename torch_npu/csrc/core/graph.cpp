#include "csrc/core/graph.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/allocator.h"
#include "csrc/core/capture_told.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/generator.h"
#include "csrc/core/launch.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/pinned_use.h"
#include "csrc/core/recovery.h"
#include "csrc/core/task_group.h"
#include "csrc/core/without_gil.h"

namespace npu {

namespace {

struct Listeners {
  std::mutex lock;
  std::vector<CaptureListener> all;
};

Listeners& listeners() {
  static auto* const made = new Listeners();
  return *made;
}

std::vector<std::shared_ptr<void>> tell() {
  Listeners& known = listeners();
  std::unique_lock<std::mutex> lock(known.lock);
  const std::vector<CaptureListener> all = known.all;
  lock.unlock();  // a listener waits for Python
  std::vector<std::shared_ptr<void>> told;
  for (const CaptureListener listener : all) told.push_back(listener());
  return told;
}

constexpr int64_t kGenerators =
    32;  // that one graph may draw from: all are in one block of the allocator's smallest size

std::atomic<int> captures{0};

struct Captures {
  std::mutex lock;
  std::map<aclmdlRI, Graph*> graphs;
};

Captures& under_way() {
  static auto* const all = new Captures();
  return *all;
}

aclmdlRI model_of(c10::Stream stream) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI model = nullptr;
  NPU_CHECK(cann::acl().aclmdlRICaptureGetInfo(raw_stream(stream), &status, &model));
  return status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE ? model : nullptr;
}

aclmdlRICaptureMode mode_of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    case at::GraphCaptureMode::Relaxed:
      return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    default:
      return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  }
}

void check_cann_captures() {
  const auto& acl = cann::acl();
  const bool all = acl.aclmdlRICaptureBegin && acl.aclmdlRICaptureEnd && acl.aclmdlRICaptureGetInfo &&
                   acl.aclmdlRIExecuteAsync && acl.aclmdlRIDestroy;
  TORCH_CHECK(all, "npu: this CANN cannot capture graphs (aclmdlRICaptureBegin and its like are missing): install a ",
              "newer one");
}

// torch.accelerator.Graph asks for "NPU": the back end's name, in capitals.
[[maybe_unused]] const bool registered = [] {
  at::GraphImplRegistry()->Register("NPU", [](at::GraphImplArgs args) -> std::unique_ptr<at::GraphImplInterface> {
    return std::make_unique<Graph>(args);
  });
  return true;
}();

}  // namespace

void listen_to_captures(CaptureListener listener) {
  Listeners& known = listeners();
  const std::lock_guard<std::mutex> lock(known.lock);
  if (std::find(known.all.begin(), known.all.end(), listener) == known.all.end()) known.all.push_back(listener);
}

Graph::~Graph() {
  try {
    if (alive()) reset();
  } catch (const std::exception& error) {
    TORCH_WARN("npu: a graph could not be released: ", error.what());
  }
}

void Graph::check_captured(const char* what) const {
  TORCH_CHECK(model_ && !stream_, "npu: ", what,
              ": this graph has not been captured: call capture_begin and capture_end", " first");
}

void Graph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(!model_ && !stream_, "npu: this graph has been captured already: call reset() first");
  check_cann_captures();
  const c10::Stream stream = current_stream();
  TORCH_CHECK(stream != default_stream(), "npu: graphs are captured on a stream that is not the default one: use ",
              "torch.npu.graph, or `with torch.npu.stream(...)`");
  device_ = stream.device_index();
  make_random_memory();
  const bool shared = pool.first != 0 || pool.second != 0;
  const c10::MempoolId_t id = shared ? pool : memory::new_pool_id(true);
  memory::hold_pool(device_, id);
  pool_ = id;
  pinned_ = std::make_shared<PinnedUse>();
  try {
    told_ = tell();  // what a listener does now is not captured
    // Before the capture begins: of what is freed from then on, on any thread, no event may fall into it.
    const auto model = std::make_shared<std::atomic<aclmdlRI>>(nullptr);
    memory::begin_allocate_to(device_, id, true, [model, device = device_](c10::StreamId other) {
      const aclmdlRI own = model->load(std::memory_order_acquire);
      return own && model_of(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device),
                                         other)) == own;
    });
    routed_ = true;
    NPU_CHECK(cann::acl().aclmdlRICaptureBegin(raw_stream(stream), mode_of(mode)));
    stream_ = stream;
    model_ = model_of(stream);
    model->store(model_, std::memory_order_release);
    {
      Captures& all = under_way();
      const std::lock_guard<std::mutex> lock(all.lock);
      all.graphs[model_] = this;
      captures.fetch_add(1, std::memory_order_release);
    }
  } catch (...) {
    reset();
    throw;
  }
}

void Graph::capture_end() {
  TORCH_CHECK(stream_, "npu: capture_end: no capture of this graph has begun");
  TORCH_CHECK(current_stream(device_) == *stream_, "npu: capture_end: the capture must end on the stream it began on");
  finish_capture();
}

void Graph::finish_capture() {
  told_.clear();
  {
    Captures& all = under_way();
    const std::lock_guard<std::mutex> lock(all.lock);
    captures.fetch_sub(static_cast<int>(all.graphs.erase(model_)), std::memory_order_release);
  }
  model_ = nullptr;
  const aclrtStream raw = raw_stream(*stream_);
  stream_.reset();
  const int status = cann::acl().aclmdlRICaptureEnd(raw, &model_);
  stop_routing();
  if (status != 0) {
    model_ = nullptr;
    cann::throw_status(status, "aclmdlRICaptureEnd");
  }
}

void Graph::stop_routing() {
  if (std::exchange(routed_, false)) memory::end_allocate_to(device_, *pool_);
}

void Graph::instantiate() { check_captured("instantiate"); }

void Graph::replay() {
  check_captured("replay");
  refuse_stopped(device_);
  const NPUGuard guard(device_);
  const bool draws = std::any_of(random_.begin(), random_.end(), [](const CapturedPhilox& r) { return r.used; });
  if (draws) set_seeds();
  const c10::Stream stream = current_stream();
  if (std::find(replayed_on_.begin(), replayed_on_.end(), stream) == replayed_on_.end()) replayed_on_.push_back(stream);
  const int status = cann::acl().aclmdlRIExecuteAsync(model_, raw_stream(stream));
  if (status != 0) {
    wait_if_blocking();  // a task that failed before the last was put on its stream: its error is told now, and is over
    cann::throw_status(status, "aclmdlRIExecuteAsync");
  }
  if (Graph* const outer = capturing_graph(stream)) return outer->take_in(*this);  // nothing was replayed
  if (!draws && !kept_.empty() && !replayed_) replayed_.emplace(device_);
  if (replayed_) record_event(replayed_->get(), current_stream());
  wait_if_blocking();
}

void Graph::take_in(const Graph& other) {
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  const auto take = [this](const std::shared_ptr<PinnedUse>& pinned, c10::MempoolId_t pool) {
    memory::hold_pool(device_, pool);
    pinned->join();
    taken_in_.emplace_back(pinned, pool);
  };
  take(other.pinned_, *other.pool_);
  for (const auto& [pinned, pool] : other.taken_in_) take(pinned, pool);
}

void Graph::set_seeds() {
  const c10::Stream stream = current_stream();
  if (replayed_)
    wait_event(replayed_->get(), stream);  // on whatever stream: that one draws by the seeds which this one sets anew
  else
    replayed_.emplace(device_);
  device_allocator()->recordStream(random_memory_.storage().data_ptr(), stream);
  for (CapturedPhilox& random : random_) {
    if (!random.used) continue;
    const PhiloxSlice slice = next_philox(random.generator, random.drawn);
    random.seed.fill_(slice.seed);
    random.offset.fill_(slice.offset);
  }
}

void Graph::reset() {
  if (stream_) finish_capture();  // given up, perhaps from another stream
  told_.clear();                  // of one that could not begin
  stop_routing();
  if (model_) {
    NPU_CHECK(cann::acl().aclmdlRIDestroy(model_));
    model_ = nullptr;
  }
  if (!kept_.empty() && replayed_) {
    const WithoutGil release;             // the replay may wait for what another thread of Python does
    synchronize_event(replayed_->get());  // replays under way point to it
  }
  kept_.clear();
  for (const auto& group : std::exchange(groups_, {})) group->close(replayed_on_);
  if (pinned_) std::exchange(pinned_, nullptr)->end(replayed_on_);
  for (const auto& [pinned, pool] : std::exchange(taken_in_, {})) {
    pinned->end(replayed_on_);
    memory::drop_pool(device_, pool);
  }
  replayed_on_.clear();
  random_.clear();
  random_memory_.reset();
  replayed_.reset();
  if (pool_) memory::drop_pool(device_, *pool_);
  pool_.reset();
}

c10::MempoolId_t Graph::pool() const {
  TORCH_CHECK(pool_, "npu: pool: this graph has not been captured");
  return *pool_;
}

void Graph::debug_dump(const std::string& path) {
  check_captured("debug_dump");
  TORCH_CHECK(cann::acl().aclmdlRIDebugJsonPrint, "npu: this CANN cannot print graphs (aclmdlRIDebugJsonPrint is ",
              "missing): install a newer one");
  NPU_CHECK(cann::acl().aclmdlRIDebugJsonPrint(model_, path.c_str(), 0));
}

CapturedPhilox* Graph::random_of(const c10::GeneratorImpl* generator) {
  for (CapturedPhilox& random : random_) {
    if (share_state(*random.generator.unsafeGetGeneratorImpl(), *generator)) return &random;
  }
  return nullptr;
}

CapturedPhilox& Graph::random_of(const at::Generator& generator) {
  TORCH_CHECK_TYPE(generator.device().type() == c10::DeviceType::PrivateUse1,
                   "npu: expected a generator of an npu device, got one of ", generator.device());
  if (CapturedPhilox* known = random_of(generator.unsafeGetGeneratorImpl())) return *known;
  make_random_memory();
  const c10::InferenceMode plain(false);
  const auto next = static_cast<int64_t>(2 * random_.size());
  TORCH_CHECK(next < random_memory_.numel(), "npu: a graph draws from at most ", kGenerators, " generators");
  const at::Generator state(generator.unsafeGetGeneratorImpl()->graphsafe_get_state());
  return random_.emplace_back(state, random_memory_.narrow(0, next, 1), random_memory_.narrow(0, next + 1, 1));
}

void Graph::make_random_memory() {
  const c10::InferenceMode plain(false);  // replays write it, in that mode and out of it
  if (!random_memory_.defined()) random_memory_ = empty({2 * kGenerators}, at::kLong);
}

bool any_capturing() noexcept { return captures.load(std::memory_order_acquire) != 0; }

Graph* capturing_graph() { return C10_LIKELY(!any_capturing()) ? nullptr : capturing_graph(current_stream()); }

Graph* capturing_graph(c10::Stream stream) {
  if (!any_capturing()) return nullptr;
  const NPUGuard guard(stream.device_index());
  const aclmdlRI model = model_of(stream);
  if (!model) return nullptr;
  Captures& all = under_way();
  const std::lock_guard<std::mutex> lock(all.lock);
  const auto found = all.graphs.find(model);
  return found == all.graphs.end() ? nullptr : found->second;
}

}  // namespace npu
