// See init.h.
#include "softnpu/hccl/init.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include "acl/api.h"
#include "softnpu/hccl/bootstrap.h"
#include "softnpu/hccl/device_ip.h"
#include "softnpu/hccl/handshake.h"
#include "softnpu/hccl/network/carrier.h"
#include "softnpu/hccl/rank_table.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/whitelist.h"

namespace softnpu::hccl {
namespace {

int current_device() {
  int32_t device = 0;
  return aclrtGetDevice(&device) == ACL_SUCCESS ? device : 0;
}

Member own_member(const Settings& s, uint32_t rank, int device, const std::string& device_ip = "") {
  Member m{};
  Peers::get();  // listens from now on: whoever learns of this process may connect at once
  m.process = this_process();
  m.host = derived_key(Key{}, host_identity());
  m.rank = rank;
  m.device = device;
  strncpy(m.address, own_address(s).c_str(), sizeof m.address - 1);
  strncpy(m.device_address, device_address(device, device_ip, m.address).c_str(), sizeof m.device_address - 1);
  return m;
}

Options named(Options options, const Key& key) {
  if (options.name.empty())
    options.name = "hccl_" + hex(name_of(key)).substr(0, 12);  // errors say it: nothing of the key itself
  return options;
}

// Ends with the time limit, and when the root says that another rank failed.
class Linking final : public Patience {
 public:
  explicit Linking(const Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  bool hopeless() override {
    bootstrap_.check();
    return false;
  }
  Deadline until() const override { return bootstrap_.deadline(); }

 private:
  const Bootstrap& bootstrap_;
};

// The key of a root info has passed through a store, that of a rank table through a file: with a secret (ANYCEND_HCCL_SECRET) whoever
// read them there knows nothing yet.
Key kept_key(const Settings& s, const Key& key) {
  return s.secret.empty() ? key : derived_key(key, "secret " + s.secret);
}

CommunicatorPtr join(const Settings& s, const RootInfo& root, Root how, uint32_t ranks, const Member& self,
                     const Options& options) {
  if (!ranks || self.rank >= ranks) fail(HCCL_E_PARA, "rank %u does not exist among %u ranks", self.rank, ranks);
  Bootstrap bootstrap(s, root, how, ranks, self, options.connect_timeout);
  auto communicator =
      std::make_shared<Communicator>(root.key, self.rank, bootstrap.members(), named(options, root.key));
  const bool several = Hosts(bootstrap.members(), self.rank).several();
  std::vector<std::string> names;
  try {
    if (several) {
      const Whitelist list(s);
      for (const Member& m : bootstrap.members())
        list.require(m.address, "rank"), list.require(m.device_address, "rank");
      Wire& wire = Wire::get(self.device_address);
      for (const Member& m : bootstrap.members()) wire.admit(m.process.id, m.device_address, root.key);
      names = bootstrap.exchange_names(wire.name());
      for (uint32_t r = 0; r < ranks; ++r)
        if (names[r].substr(0, kTcpName.size()) != wire.name().substr(0, kTcpName.size()))
          fail(HCCL_E_UNAVAIL,
               "rank %u's host uses %s for data between hosts and this one does not: UCX is used where there is an "
               "RDMA card or "
               "UCX_TLS is set; set UCX_TLS on all hosts or on none",
               r, names[r].starts_with(kUcxName) ? "UCX" : "TCP without UCX");
    }
    Linking patience(bootstrap);
    communicator->link(patience);
  } catch (const Error& mine) {
    try {
      bootstrap.confirm(mine.text);  // tell the others
    } catch (const Error&) {         // it is our own error that comes back
    }
    throw;
  }
  bootstrap.confirm("");
  for (uint32_t r = 0; r < names.size(); ++r)
    Wire::get(self.device_address).learn(bootstrap.members()[r].process.id, names[r], root.key);
  if (several) communicator->connect_hosts(ControlLink::open(bootstrap.release(), bootstrap.root_process()));
  return communicator;
}

bool numeric_address(const std::string& text) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace

Options default_options() {
  Options options;
  const Settings s = settings();
  options.exec_timeout = s.exec_timeout;
  options.host_timeout = s.host_timeout;
  options.connect_timeout = s.connect_timeout;
  return options;
}

Options options_of(const HcclCommConfig* config) {
  if (!config) fail(HCCL_E_PTR, "config is null");
  struct Head {
    uint64_t size;
    uint32_t magic, version;
    uint64_t reserved;
  } head;
  static_assert(sizeof head == HCCL_COMM_CONFIG_INFO_BYTES);
  memcpy(&head, config->reserved, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD || head.size < sizeof head)
    fail(HCCL_E_PARA, "config was not initialised by HcclCommConfigInit (magic %08x, size %llu)", head.magic,
         static_cast<unsigned long long>(head.size));
  auto has = [&](size_t offset, size_t size) { return offset + size <= head.size; };
  Options options = default_options();
  // hcclBufferSize says how much memory CANN stages data in. Here data is read where it lies: there is nothing to size.
  if (has(offsetof(HcclCommConfig, hcclDeterministic), 4) &&
      config->hcclDeterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET && config->hcclDeterministic > 2)
    fail(HCCL_E_PARA, "hcclDeterministic is 0 to 2, not %u", config->hcclDeterministic);
  if (has(offsetof(HcclCommConfig, hcclCommName), COMM_NAME_MAX_LENGTH))
    options.name.assign(config->hcclCommName, strnlen(config->hcclCommName, COMM_NAME_MAX_LENGTH));
  const bool limited = has(offsetof(HcclCommConfig, hcclExecTimeOut), 4);
  if (limited && config->hcclExecTimeOut >= 0) {  // HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET is -1; 0 is no limit
    options.exec_timeout = std::chrono::seconds(config->hcclExecTimeOut);
    // Whoever cannot wait longer for a call of it will not wait longer for its making.
    if (config->hcclExecTimeOut > 0) options.connect_timeout = std::min(options.connect_timeout, options.exec_timeout);
  }
  return options;
}

RootInfo make_root_info() {
  const Settings s = settings();
  const Key key = random_key();
  RootInfo root = open_session(s, current_device(), kept_key(s, key), own_address(s));
  root.key = key;
  return root;
}

CommunicatorPtr init_from_root(RootInfo root, uint32_t ranks, uint32_t rank, const Options& options) {
  const Settings s = settings();
  root.key = kept_key(s, root.key);
  return join(s, root, Root::kListens, ranks, own_member(s, rank, current_device()), options);
}

CommunicatorPtr init_from_table(const char* file, uint32_t rank, const Options& options) {
  if (!file) fail(HCCL_E_PTR, "the rank table's name is null");
  const RankTable table = read_rank_table(file);
  const auto ranks = static_cast<uint32_t>(table.ranks.size());
  if (rank >= ranks)
    fail(HCCL_E_PARA, "rank %u does not stand in the rank table %s, which has %u ranks", rank, file, ranks);
  const Settings s = settings();
  // The same table may make several communicators, one after another: every rank counts alike.
  static std::mutex mutex;
  static auto* const uses = new std::map<std::pair<std::string, uint32_t>, int>;
  int use;
  {
    std::lock_guard lock(mutex);
    use = (*uses)[{table.text, rank}]++;
  }
  const RankEntry& first = table.ranks[0];
  for (const RankEntry& other : table.ranks)
    if (other.server != first.server && !numeric_address(first.server))
      fail(HCCL_E_PARA,
           "rank table %s: server_id \"%s\" of rank 0 must be an IP address, which the ranks of \"%s\" connect to",
           file, first.server.c_str(), other.server.c_str());
  RootInfo root{numeric_address(first.server) ? first.server : own_address(s),
                static_cast<uint16_t>(s.base_port + first.device % 16),
                kept_key(s, derived_key(Key{}, "rank table " + std::to_string(use) + " " + table.text))};
  if (rank == 0) root = open_session(s, first.device, root.key, root.address, root.port);
  Member self = own_member(s, rank, table.ranks[rank].device, table.ranks[rank].device_ip);
  return join(s, root, Root::kComes, ranks, self, options);
}

std::vector<CommunicatorPtr> init_all(uint32_t ranks, const int32_t* devices) {
  uint32_t there = 0;
  if (const int status = aclrtGetDeviceCount(&there)) fail(HCCL_E_RUNTIME, "aclrtGetDeviceCount answers %d", status);
  if (!ranks || ranks > there) fail(HCCL_E_PARA, "ndev is 1 to %u, the number of devices, not %u", there, ranks);
  for (uint32_t r = 0; devices && r < ranks; ++r) {
    if (devices[r] < 0 || static_cast<uint32_t>(devices[r]) >= there)
      fail(HCCL_E_PARA, "devices[%u] is 0 to %u, not %d", r, there - 1, devices[r]);
    if (const int32_t* same = std::find(devices, devices + r, devices[r]); same != devices + r)
      fail(HCCL_E_PARA, "device %d stands twice in devices, at %td and %u", devices[r], same - devices, r);
  }
  const Settings s = settings();
  const Key key = random_key();
  std::vector<Member> members;
  for (uint32_t r = 0; r < ranks; ++r) members.push_back(own_member(s, r, devices ? devices[r] : static_cast<int>(r)));
  std::vector<CommunicatorPtr> all;
  for (uint32_t r = 0; r < ranks; ++r) {
    all.push_back(std::make_shared<Communicator>(key, r, members, named(default_options(), key)));
    Certain patience;  // rank 0 comes first and publishes the board
    all.back()->link(patience);
  }
  return all;
}

CommunicatorPtr init_sub(Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id, uint32_t rank,
                         const Options& options) {
  if (parent.aborted()) throw parent.error();
  std::vector<Member> members;
  std::string text = "sub " + std::to_string(id) + " " + std::to_string(parent.count_sub(id));
  for (uint32_t r : ranks) {
    if (r >= parent.size()) fail(HCCL_E_PARA, "rankIds: rank %u does not exist among %u ranks", r, parent.size());
    for (const Member& m : members)
      if (m.rank == parent.members()[r].rank) fail(HCCL_E_PARA, "rankIds: rank %u stands twice", r);
    members.push_back(parent.members()[r]);
    text += " " + std::to_string(r);
  }
  if (rank >= ranks.size() || ranks[rank] != parent.rank())
    fail(HCCL_E_PARA, "subCommRankId %u is not the place of rank %u in rankIds", rank, parent.rank());
  for (uint32_t r = 0; r < members.size(); ++r) members[r].rank = r;
  const Key key = derived_key(parent.key(), text);
  Options own = named(options, key);
  own.first = parent.first_of(ranks);
  const Settings s = settings();
  const Deadline deadline = Clock::now() + s.connect_timeout;
  auto communicator = std::make_shared<Communicator>(key, rank, members, own);
  Until patience(deadline, [&] {
    fail(HCCL_E_TIMEOUT, "rank %s did not make the new communicator within the time limit (HCCL_CONNECT_TIMEOUT)",
         communicator->name_of({communicator->host_leader()}).c_str());
  });
  communicator->link(patience);
  communicator->connect_hosts(parent.control());
  const std::atomic<int64_t> limit = std::chrono::milliseconds(s.connect_timeout).count();
  communicator->execute({.name = "HcclCreateSubCommConfig", .kind = HCCL_CMD_INIT, .type = HCCL_DATA_TYPE_INT8},
                        *communicator->epoch(), limit, "HCCL_CONNECT_TIMEOUT");
  return communicator;
}

}  // namespace softnpu::hccl
