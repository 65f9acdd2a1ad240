// See worker.h.
#include "softnpu/hccl/network/worker.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr unsigned kMailbox = 1;
constexpr const char* kSegment = "520K";  // one read and one write of a whole piece, not of 64 KiB
constexpr auto kPatience = std::chrono::milliseconds(300);

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fail(HCCL_E_TCP_CONNECT, "UCX: %s: %s", what, ucx().status_string(status));
}

}  // namespace

Wire::Worker::Worker(const std::string& address) {
  const std::string card = interface_of(address);
  if (card.empty())
    fail(HCCL_E_PARA,
         "no interface of this host has the address %s, which hccn.conf (ANYCEND_HCCN_CONF) gives the device",
         address.c_str());
  ucp_config_t* config = nullptr;
  check(api.config_read(nullptr, nullptr, &config), "reading the configuration");
  if (tcp_only()) {
    api.config_modify(config, "TLS", "tcp");
    api.config_modify(config, "RCACHE_ENABLE", "n");
    if (!getenv("UCX_TCP_RX_SEG_SIZE")) api.config_modify(config, "TCP_RX_SEG_SIZE", kSegment);
  }
  // With RDMA, UCX itself finds the card that belongs to the network; TCP must stay on the chosen interface.
  if (tcp_only() && !getenv("UCX_NET_DEVICES")) api.config_modify(config, "NET_DEVICES", card.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status = api.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  api.config_release(config);
  if (status == UCS_ERR_NO_DEVICE)
    fail(HCCL_E_TCP_CONNECT,
         "UCX cannot use the network interface %s (%s): it is not up, or /sys shows other interfaces", card.c_str(),
         address.c_str());
  check(status, "initialisation");
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made here, used by the one thread below
  check(api.worker_create(context, &worker_params, &worker), "making a worker");
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  check(api.worker_query(worker, &attributes), "asking for the worker's address");
  name.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  api.worker_release_address(worker, attributes.address);
  check(api.worker_get_efd(worker, &events), "asking for the event descriptor");
  ucp_am_handler_param_t mailbox{};
  mailbox.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  mailbox.id = kMailbox;
  mailbox.cb = came;
  mailbox.arg = this;
  check(api.worker_set_am_recv_handler(worker, &mailbox), "asking for messages");
}

void Wire::Worker::start() {
  sigset_t all, before;  // the program's signals are for its own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Wire::Worker::wake() {
  if (!asleep.exchange(false, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell.get(), &one, sizeof one);
}

void Wire::Worker::order(ParcelPtr parcel) {
  {
    std::lock_guard lock(mutex);
    orders.push_back(std::move(parcel));
  }
  wake();
}

void Wire::Worker::run() {
  pthread_setname_np(pthread_self(), "hccl-wire");
  for (;;) {
    const bool served = serve();
    const bool moved = api.worker_progress(worker) != 0;
    see_off();
    close_broken();
    if (served || moved) continue;
    if (finish()) return;
    asleep.store(true, std::memory_order_seq_cst);
    if (waiting() || api.worker_arm(worker) != UCS_OK) {
      asleep.store(false, std::memory_order_seq_cst);
      continue;
    }
    pollfd fds[2] = {{events, POLLIN, 0}, {bell.get(), POLLIN, 0}};
    poll(fds, 2, leaving.empty() ? -1 : 10);
    asleep.store(false, std::memory_order_seq_cst);
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(bell.get(), &count, sizeof count);
  }
}

bool Wire::Worker::waiting() {
  std::lock_guard lock(mutex);
  return !orders.empty() || (closing && !closed.value);
}

bool Wire::Worker::serve() {
  std::deque<ParcelPtr> mine;
  {
    std::lock_guard lock(mutex);
    mine.swap(orders);
  }
  for (ParcelPtr& parcel : mine) begin(std::move(parcel));
  return !mine.empty();
}

void Wire::Worker::begin(ParcelPtr parcel) {
  if (parcel->dropped) return forget(std::move(parcel));
  if (!parcel->out) return inbox.expect(std::move(parcel));
  ucp_ep_h ep = nullptr;
  std::string why;
  try {
    ep = endpoint(parcel->to);
  } catch (const Error& error) {
    why = error.text;
  }
  if (!ep) return parcel->end(Parcel::kLost, why);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL |
                       (eager ? UCP_OP_ATTR_FIELD_FLAGS : 0);
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  auto* held = new ParcelPtr(parcel);
  param.user_data = held;
  param.cb.send = [](void* request, ucs_status_t status, void* data) {
    const std::unique_ptr<ParcelPtr> sent(static_cast<ParcelPtr*>(data));
    ucx().request_free(request);
    if (status != UCS_OK) return (*sent)->end(Parcel::kLost, ucx().status_string(status));
    (*sent)->end(Parcel::kThrough);
  };
  parcel->sending = true;
  const ucs_status_ptr_t request =
      api.am_send_nbx(ep, kMailbox, &parcel->tag, sizeof parcel->tag, parcel->block->data(), parcel->bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    delete held;
    parcel->end(Parcel::kLost, api.status_string(UCS_PTR_STATUS(request)));
  }
}

ucs_status_t Wire::Worker::came(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param) {
  auto& worker = *static_cast<Worker*>(self);
  uint64_t tag;
  if (header_bytes != sizeof tag) return UCS_OK;  // of nobody we know
  memcpy(&tag, header, sizeof tag);
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return worker.fetch(tag, data, bytes);
  worker.inbox.arrive(tag, static_cast<const std::byte*>(data), bytes);
  return UCS_OK;
}

ucs_status_t Wire::Worker::fetch(uint64_t tag, void* there, size_t bytes) {
  struct Fetch {
    Worker* worker;
    uint64_t tag;
    Block block;
    size_t bytes;
  };
  auto* held = new Fetch{this, tag, Block(bytes), bytes};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.user_data = held;
  param.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* data) {
    const std::unique_ptr<Fetch> fetched(static_cast<Fetch*>(data));
    ucx().request_free(request);
    Inbox& inbox = fetched->worker->inbox;
    if (status == UCS_OK) return inbox.arrive(fetched->tag, fetched->block.data(), fetched->bytes);
    inbox.lose(fetched->tag, ucx().status_string(status));
  };
  const ucs_status_ptr_t request = api.am_recv_data_nbx(worker, there, held->block.data(), bytes, &param);
  if (!UCS_PTR_IS_ERR(request)) return UCS_INPROGRESS;
  delete held;
  return UCS_OK;
}

void Wire::Worker::forget(ParcelPtr parcel) {
  if (!parcel->sending) return inbox.forget(parcel);
  if (!parcel->done()) leaving.push_back({std::move(parcel), Clock::now() + kPatience});
}

void Wire::Worker::see_off() {
  std::erase_if(leaving, [](const Leaving& l) { return l.parcel->done(); });
  for (const Leaving& l : leaving) {
    const auto to = endpoints.find(l.parcel->to);
    if (Clock::now() > l.deadline && to != endpoints.end() && to->second) to->second->broken = true;
  }
}

ucp_ep_h Wire::Worker::endpoint(const Key& process) {
  auto& known = endpoints[process];
  if (known && !known->broken) return known->ep;
  std::string where;
  {
    std::lock_guard lock(mutex);
    where = names[process];
  }
  if (where.empty()) fail(HCCL_E_INTERNAL, "the process did not say how to reach it");
  if (known) broken.push_back(std::move(known));
  known = std::make_unique<Ep>();
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(where.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* data, ucp_ep_h, ucs_status_t) { static_cast<Ep*>(data)->broken = true; };
  params.err_handler.arg = known.get();
  const ucs_status_t status = api.ep_create(worker, &params, &known->ep);
  if (status != UCS_OK) {
    known.reset();
    fail(HCCL_E_TCP_CONNECT, "%s", api.status_string(status));
  }
  return known->ep;
}

void Wire::Worker::close_broken() {
  for (auto& [key, known] : endpoints)
    if (known && known->broken) broken.push_back(std::move(known));
  for (auto& ep : broken) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = api.ep_close_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(request)) api.request_free(request);
  }
  broken.clear();
}

bool Wire::Worker::finish() {
  {
    std::lock_guard lock(mutex);
    if (!closing || closed.value) return false;
  }
  ucp_request_param_t param{};
  const ucs_status_ptr_t request = api.worker_flush_nbx(worker, &param);
  const Deadline deadline = Clock::now() + std::chrono::seconds(1);
  if (UCS_PTR_IS_PTR(request)) {
    while (api.request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline) api.worker_progress(worker);
    api.request_free(request);
  }
  set(closed, 1);
  return true;
}

void Wire::Worker::close() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  wake();
  Certain patience;
  wait(closed, [&] { return closed.value.load() != 0; }, patience, Clock::now() + std::chrono::milliseconds(1200));
}

}  // namespace softnpu::hccl
