// Calls that are made together: from startCoalescing to endCoalescing nothing goes to HCCL. Each call has prepared its buffers
// when it was made; the scope owns them, and what must follow, until HCCL has queued everything and the rest stands behind it.
// HCCL's own group (HcclGroupStart to HcclGroupEnd) is the thread's and not a group's: it is open only inside of `run`, so that
// scopes of several process groups may nest, and an exception leaves nothing open.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "csrc/distributed/work.h"

namespace npu::distributed {

// A call whose buffers are ready. Both steps run with the call's stream current, and own the memory that they use.
struct Steps {
  std::function<void()> issue;  // the calls of HCCL
  std::function<void()> after;  // what follows them on the stream: a copy back, a division; may be empty
};

class Coalescing {
 public:
  // Of the thread that began it: calls of others are their own.
  bool mine() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  void begin();
  // Forgets the calls; the state is as if nothing had begun.
  void drop();
  // For an inner scope that fails: forgets its calls alone.
  size_t count() const { return calls_.size(); }
  void drop_inner(size_t calls_before);

  struct Call {
    c10::Stream stream;
    Steps steps;
    std::vector<at::Tensor> tensors, outputs;
    std::shared_ptr<Communicator> communicator;
    bool message;  // no collective
  };
  using Calls = std::vector<Call>;
  void add(Call call);  // of the same device as the others
  // The innermost scope ends. If it was the outermost, its calls, which are due now.
  std::optional<Calls> end();

 private:
  std::atomic<std::thread::id> owner_{};  // of nobody while there is no scope; the rest is the owner's
  int depth_ = 0;
  Calls calls_;
};

Communicators communicators_of(const Coalescing::Calls& calls);  // each once

struct Queued {
  std::vector<c10::Stream> streams;  // that the calls went to, each once
  std::vector<at::Tensor> tensors, outputs;
  bool messages = true;  // and no collective
};
// Queues all in HCCL's group, then what follows them. At least one.
Queued queue(const Coalescing::Calls& calls);

}  // namespace npu::distributed
