// See carrier.h: through UCX, for RDMA. Its thread is the wire's; its sockets and queue pairs are its own.
// What it is not: guarded. UCX reads what anybody sends to its ports, so the ports of TCP that it opens beside the cards' take
// nothing but from the members' addresses (gate.h), and the rest is the network's (docs/distributed.md).
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "softnpu/hccl/network/carrier.h"
#include "softnpu/hccl/network/gate.h"
#include "softnpu/hccl/network/ucx.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr unsigned kMailbox = 1;

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fail(HCCL_E_TCP_CONNECT, "UCX: %s: %s", what, ucx().status_string(status));
}

class UcxCarrier final : public Carrier {
 public:
  UcxCarrier(const std::string& address, const Addresses& addresses, Inbox& inbox);
  const std::string& name() const override { return name_; }
  int events() const override { return events_; }
  bool arm() override { return api_.worker_arm(worker_) == UCS_OK; }
  bool progress() override {
    gate_.open(addresses_);
    const bool moved = api_.worker_progress(worker_) != 0;
    close_broken();
    return moved;
  }
  void send(ParcelPtr parcel) override;
  void cut(const Key& process) override {
    const auto to = endpoints_.find(process);
    if (to != endpoints_.end() && to->second) to->second->broken = true;
  }
  void flush(Deadline deadline) override;

 private:
  struct Ep {
    ucp_ep_h ep = nullptr;
    bool broken = false;
  };
  // A message that is already in memory, on this thread: the one copy that UCX's TCP makes of it, straight to where it belongs.
  static ucs_status_t came(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                           const ucp_am_recv_param_t* param);
  // One that the sender still holds (RDMA). It comes into a block of ours: such a receive cannot be taken back.
  ucs_status_t fetch(uint64_t tag, void* there, size_t bytes);
  ucp_ep_h endpoint(const Key& process);
  void close_broken();

  const Ucx& api_ = ucx();
  const Addresses& addresses_;
  Inbox& inbox_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;
  std::string name_;
  Gate gate_;
  std::map<Key, std::unique_ptr<Ep>> endpoints_;
  std::vector<std::unique_ptr<Ep>> broken_;
};

UcxCarrier::UcxCarrier(const std::string& address, const Addresses& addresses, Inbox& inbox)
    : addresses_(addresses), inbox_(inbox) {
  const std::string card = interface_of(address);
  if (card.empty())
    fail(HCCL_E_PARA,
         "no interface of this host has the address %s, which hccn.conf (ANYCEND_HCCN_CONF) gives the device",
         address.c_str());
  ucp_config_t* config = nullptr;
  check(api_.config_read(nullptr, nullptr, &config), "reading the configuration");
  // With RDMA, UCX itself finds the card that belongs to the network; TCP must stay on the chosen interface.
  if (!rdma_devices() && !getenv("UCX_NET_DEVICES")) api_.config_modify(config, "NET_DEVICES", card.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status = api_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  api_.config_release(config);
  if (status == UCS_ERR_NO_DEVICE)
    fail(HCCL_E_TCP_CONNECT,
         "UCX cannot use the network interface %s (%s): it is not up, or /sys shows other interfaces", card.c_str(),
         address.c_str());
  check(status, "initialisation");
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made here, used by the one thread below
  const Gate::Ports before = Gate::ports();
  check(api_.worker_create(context_, &worker_params, &worker_), "making a worker");
  gate_.close(before);
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  check(api_.worker_query(worker_, &attributes), "asking for the worker's address");
  name_.assign(kUcxName).append(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  api_.worker_release_address(worker_, attributes.address);
  check(api_.worker_get_efd(worker_, &events_), "asking for the event descriptor");
  ucp_am_handler_param_t mailbox{};
  mailbox.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  mailbox.id = kMailbox;
  mailbox.cb = came;
  mailbox.arg = this;
  check(api_.worker_set_am_recv_handler(worker_, &mailbox), "asking for messages");
}

void UcxCarrier::send(ParcelPtr parcel) {
  ucp_ep_h ep = nullptr;
  std::string why;
  try {
    ep = endpoint(parcel->to);
  } catch (const Error& error) {
    why = error.text;
  }
  if (!ep) return parcel->end(Parcel::kLost, why);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
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
      api_.am_send_nbx(ep, kMailbox, &parcel->tag, sizeof parcel->tag, parcel->block->data(), parcel->bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    delete held;
    parcel->end(Parcel::kLost, api_.status_string(UCS_PTR_STATUS(request)));
  }
}

ucs_status_t UcxCarrier::came(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                              const ucp_am_recv_param_t* param) {
  auto& carrier = *static_cast<UcxCarrier*>(self);
  uint64_t tag;
  if (header_bytes != sizeof tag) return UCS_OK;  // of nobody we know
  memcpy(&tag, header, sizeof tag);
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return carrier.fetch(tag, data, bytes);
  carrier.inbox_.arrive(tag, static_cast<const std::byte*>(data), bytes);
  return UCS_OK;
}

ucs_status_t UcxCarrier::fetch(uint64_t tag, void* there, size_t bytes) {
  struct Fetch {
    UcxCarrier* carrier;
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
    Inbox& inbox = fetched->carrier->inbox_;
    if (status == UCS_OK) return inbox.arrive(fetched->tag, fetched->block.data(), fetched->bytes);
    inbox.lose(fetched->tag, ucx().status_string(status));
  };
  const ucs_status_ptr_t request = api_.am_recv_data_nbx(worker_, there, held->block.data(), bytes, &param);
  if (!UCS_PTR_IS_ERR(request)) return UCS_INPROGRESS;
  delete held;
  return UCS_OK;
}

ucp_ep_h UcxCarrier::endpoint(const Key& process) {
  auto& known = endpoints_[process];
  if (known && !known->broken) return known->ep;
  const std::string where = addresses_.of(process).name;
  if (!where.starts_with(kUcxName))
    fail(HCCL_E_TCP_CONNECT,
         "the other host uses no UCX: it has no RDMA card, and UCX_TLS is not set there as it is here");
  if (known) broken_.push_back(std::move(known));
  known = std::make_unique<Ep>();
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(where.data() + kUcxName.size());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* data, ucp_ep_h, ucs_status_t) { static_cast<Ep*>(data)->broken = true; };
  params.err_handler.arg = known.get();
  const ucs_status_t status = api_.ep_create(worker_, &params, &known->ep);
  if (status != UCS_OK) {
    known.reset();
    fail(HCCL_E_TCP_CONNECT, "%s", api_.status_string(status));
  }
  return known->ep;
}

void UcxCarrier::close_broken() {
  for (auto& [key, known] : endpoints_)
    if (known && known->broken) broken_.push_back(std::move(known));
  for (auto& ep : broken_) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = api_.ep_close_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(request)) api_.request_free(request);
  }
  broken_.clear();
}

void UcxCarrier::flush(Deadline deadline) {
  ucp_request_param_t param{};
  const ucs_status_ptr_t request = api_.worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (api_.request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline) api_.worker_progress(worker_);
  api_.request_free(request);
}

}  // namespace

std::unique_ptr<Carrier> make_ucx_carrier(const std::string& address, const Addresses& addresses, Inbox& inbox) {
  return std::make_unique<UcxCarrier>(address, addresses, inbox);
}

}  // namespace softnpu::hccl
