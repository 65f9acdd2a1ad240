// See script.h. All steps of a call are queued while the stream is held, so no other thread's task comes between them; the memory of a call
// goes when the last of its kernels is dropped. Captured, each kernel is replayed by the graph and each collective is called anew.
#include "softnpu/ops/script.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <atomic>
#include <memory>
#include <string>

#include "softnpu/nnopbase/error.h"
#include "softnpu/ops/describe.h"
#include "softnpu/ops/guard.h"
#include "softnpu/ops/launch.h"
#include "softnpu/runtime/trace.h"

namespace softnpu::ops {
namespace {

constexpr uint64_t kLine = 512;  // what a room begins at, as device memory does

// One call's, for all its tasks.
struct Running {
  const Op* op;
  aclOpExecutor* executor;
  Peers peers;
  Rooms rooms;

  Running(const Op& o, aclOpExecutor* e, std::string_view group) : op(&o), executor(e), peers(group) {}
  Running(const Running&) = delete;
  ~Running() { nnopbase::release_executor(executor); }
};

struct Part {
  std::shared_ptr<Running> all;
  const Step* step;
};

int run_part(void* state) noexcept {
  const Part& part = *static_cast<const Part*>(state);
  const Running& all = *part.all;
  return run_guarded(*all.op, all.executor->threads, [&] {
    Frame frame(*all.executor);
    part.step->run(frame, all.rooms, all.peers);
    frame.check_outputs();
  });
}

void drop_part(void* state) noexcept { delete static_cast<Part*>(state); }

void describe_part(const void* state, trace::Description& description) {
  describe_task(static_cast<const Part*>(state)->all->executor, description);
}
// All that the call reads and writes, with each of its steps: they are in the order of one stream.
void tell_part(const void* state, race::Accesses& accesses) {
  tell_task(static_cast<const Part*>(state)->all->executor, accesses);
}
const bool described = trace::describe(run_part, describe_part) && race::tells(run_part, tell_part);

std::string_view group_of(const Op& op, const aclOpExecutor& e) {
  const nnopbase::Arg& a = e.args[op.script->group];
  return a.kind == nnopbase::Kind::kNull ? std::string_view() : std::string_view(a.string, a.count);
}

// Sizes, types and addresses of an executor's tensors, on a thread of the caller's; their contents are the stream's.
template <class Body>
void look(const aclOpExecutor& e, const Body& body) {
  const KernelGuard guard(1);
  Frame frame(e);
  body(frame);
}

std::string said(const c10::Error& error) { return error.what_without_backtrace(); }

}  // namespace

void Rooms::add(at::IntArrayRef sizes, at::ScalarType type) {
  uint64_t bytes = c10::elementSize(type);
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) && bytes >> 47 == 0,
                "a workspace of ", sizes, " elements is too large");
  }
  rooms_.push_back({bytes_, sizes.vec(), type});
  bytes_ += (bytes + kLine - 1) / kLine * kLine;
}

at::Tensor Rooms::tensor(size_t i) const {
  const Room& room = rooms_[i];
  return at::from_blob(workspace_ + room.offset, room.sizes, at::TensorOptions().dtype(room.type));
}

bool Plan::prepare() {
  try {
    const Peers peers(group_of(op_, *e_));
    Rooms rooms;
    look(*e_, [&](Frame& frame) { op_.script->prepare(frame, rooms, peers); });
    *size_ = rooms.bytes();
    return true;
  } catch (const c10::Error& error) {
    return fail(ACLNN_ERR_PARAM_INVALID, said(error).c_str());
  }
}

aclnnStatus launch_script(const Op& op, void* workspace, uint64_t size, aclOpExecutor* handle,
                          aclrtStream stream) noexcept try {
  aclnnStatus status = 0;
  aclOpExecutor* e = take(op, handle, stream, &status);
  if (!e) return status;
  try {
    std::unique_ptr<aclOpExecutor, decltype(&nnopbase::release_executor)> owned(e, nnopbase::release_executor);
    const auto all = std::make_shared<Running>(op, owned.get(), group_of(op, *e));
    owned.release();
    all->peers.on(stream);
    look(*e, [&](Frame& frame) { op.script->prepare(frame, all->rooms, all->peers); });
    TORCH_CHECK(all->rooms.bytes() <= size && (workspace || !all->rooms.bytes()), "the workspace has ", size,
                " bytes and needs ", all->rooms.bytes());
    all->rooms.at_address(workspace);
    const Cost cost = choose_threads(op, *e, stream);
    const StreamHold hold(stream);
    if (hold.code()) return hold.code();
    for (int i = 0; i < op.script->count; i++) {
      const Step& step = op.script->steps[i];
      if (step.collective) {
        look(*e, [&](Frame& frame) { step.run(frame, all->rooms, all->peers); });
      } else if ((status = enqueue(stream, {run_part, drop_part, new Part{all, &step}, op.name, cost}))) {
        return status;
      }
    }
    return 0;
  } catch (const c10::Error& error) {
    return nnopbase::report(ACLNN_ERR_INNER, (std::string(op.name) + ": " + said(error)).c_str());
  }
} catch (...) {
  return failed(op);
}

}  // namespace softnpu::ops
