#include "csrc/cann/api.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>

#include "csrc/cann/aclnn.h"
#include "csrc/cann/library.h"
#include "csrc/cann/root.h"

namespace cann {
namespace {

// Filled library by library under this lock. Other threads read rows of one library only after the call that filled them
// returned, so a row is never read while it is written.
std::mutex& lock() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}
Api* const table = new Api();

void fill(void* handle, const char* wanted) {
#define X(symbol, library, required)                                                                           \
  if (std::strcmp(library, wanted) == 0) {                                                                     \
    table->symbol = reinterpret_cast<decltype(table->symbol)>(find_symbol(handle, #symbol));                   \
    TORCH_CHECK(table->symbol || !required, "npu: ", root().lib, "/lib", library, ".so has no ", #symbol,      \
                ": this CANN is older than torch_npu supports. Install CANN 8.2 or newer, or run without it: " \
                "ANYCEND_CANN=soft uses the software NPU");                                                    \
  }
#include "cann_loader_table.inc"
#undef X
}

}  // namespace

namespace detail {

std::atomic<const Api*> loaded_api{nullptr};

const Api& load_api() {
  const std::lock_guard<std::mutex> guard(lock());
  if (!loaded_api.load(std::memory_order_acquire)) {
    fill(open_library("ascendcl"), "ascendcl");
    loaded_api.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace detail

void load_compiler() {
  acl();
  const std::lock_guard<std::mutex> guard(lock());
  if (table->aclSetCompileopt) return;
  if (void* handle = try_open_library("acl_op_compiler")) fill(handle, "acl_op_compiler");
}

void load_operators() {
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_acquire)) return;
  acl();
  const std::lock_guard<std::mutex> guard(lock());
  if (done.load(std::memory_order_acquire)) return;
  // Where it cannot be loaded libopapi cannot either, and an operator's error says why (opapi_description).
  if (void* handle = try_open_library("nnopbase")) fill(handle, "nnopbase");
  done.store(true, std::memory_order_release);
}

const Api& hccl() {
  static std::atomic<bool> done{false};
  acl();
  if (!done.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> guard(lock());
    if (!done.load(std::memory_order_acquire)) {
      fill(open_library("hccl"), "hccl");
      done.store(true, std::memory_order_release);
    }
  }
  return *table;
}

}  // namespace cann
