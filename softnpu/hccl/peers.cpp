// See peers.h.
#include "softnpu/hccl/peers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "softnpu/hccl/hub.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

namespace {

enum PacketType : uint32_t { kHello = 1, kAskArena, kAskBoard, kAnswer, kGoodbye };
constexpr uint32_t kProtocol = 0x48434c31;  // changes with any layout that processes share

std::string socket_name(const Key& id) { return "anycend-hccl-" + hex(id); }

}  // namespace

struct Peers::Packet {
  uint32_t protocol = kProtocol, type = 0;
  uint64_t request = 0, number = 0;  // number: an arena's id; in an answer its size, 0 when there is none
  Key key{};                         // a board's; in a hello the sender's id
  Key secret{};                      // in a hello: the receiver's
};

Mapping::Mapping(Fd memfd, size_t size) : size_(size) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd.get(), 0);
  if (at == MAP_FAILED)
    fail(HCCL_E_MEMORY, "cannot map %zu bytes of a peer's device memory: %s", size, strerror(errno));
  base_ = static_cast<std::byte*>(at);
  madvise(at, size, MADV_DONTFORK);
  madvise(at, size, MADV_DONTDUMP);
  madvise(at, size, MADV_HUGEPAGE);
}

Mapping::~Mapping() { munmap(base_, size_); }

Peer::Peer(const Key& id, Fd socket, uint32_t pid) : id_(id), pid_(pid), socket_(std::move(socket)) {
  // A forked child of the peer may hold its socket open after its death; the pidfd does not lie. Not there in another pid namespace.
  if (pid) pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool Peer::gone() const {
  std::lock_guard lock(Peers::get().mutex_);
  return gone_;
}

bool Peer::said_goodbye() const {
  std::lock_guard lock(Peers::get().mutex_);
  return said_goodbye_;
}

Peer::Answer Peer::ask(uint32_t type, uint64_t number, const Key& key, const Name& rank, Patience& patience) {
  Peers& all = Peers::get();
  std::unique_lock lock(all.mutex_);
  const uint64_t request = next_request_++;
  answers_[request];
  Peers::Packet packet;
  packet.type = type, packet.request = request, packet.number = number, packet.key = key;
  lock.unlock();
  const bool sent = send_packet(socket_.get(), &packet, sizeof packet);
  auto come = [&] {
    std::lock_guard look(all.mutex_);
    return gone_ || answers_[request].here;
  };
  auto take = [&] {
    std::lock_guard look(all.mutex_);
    Answer found = std::move(answers_[request]);
    answers_.erase(request);
    return found;
  };
  try {
    if (sent) wait(all.changed_, come, patience);
  } catch (...) {
    take();
    throw;
  }
  Answer answer = take();
  if (!answer.here) fail(HCCL_E_REMOTE, "rank %s is gone: process %u of this host", rank().c_str(), pid_);
  return answer;
}

std::byte* Peer::arena(uint64_t id, const Name& rank, Patience& patience) {
  {
    std::lock_guard lock(Peers::get().mutex_);
    const auto found = arenas_.find(id);
    if (found != arenas_.end()) return found->second->base();
  }
  Answer answer = ask(kAskArena, id, {}, rank, patience);
  if (!answer.fd)
    fail(HCCL_E_REMOTE, "rank %s (process %u of this host) does not know its own memory %llu", rank().c_str(), pid_,
         static_cast<unsigned long long>(id));
  auto mapping = std::make_unique<Mapping>(std::move(answer.fd), answer.size);
  std::lock_guard lock(Peers::get().mutex_);
  return arenas_.try_emplace(id, std::move(mapping)).first->second->base();
}

std::shared_ptr<Board> Peer::board(const Key& key, uint32_t ranks, const Name& rank, Patience& patience) {
  Answer answer = ask(kAskBoard, 0, key, rank, patience);
  if (!answer.fd)
    fail(HCCL_E_INTERNAL, "rank %s (process %u of this host) passed no shared page", rank().c_str(), pid_);
  return Board::map(std::move(answer.fd), ranks);
}

Peers& Peers::get() {
  static Peers* const the = new Peers;  // leaked: the control thread uses it to the end
  return *the;
}

Peers::Peers() : listener_(local_listen(socket_name(this_process().id))) {
  hub::call([this] { hub::watch(listener_.get(), [this](uint32_t) { accept_one(); }); });
  atexit([] {
    if (!forked()) Peers::get().say_goodbye();
  });
}

void Peers::say_goodbye() {
  std::lock_guard lock(mutex_);
  Packet packet;
  packet.type = kGoodbye;
  for (auto& [id, peer] : peers_)
    if (!peer->gone_) send_packet(peer->socket_.get(), &packet, sizeof packet);
}

void Peers::accept_one() {
  Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  ucred who{};
  socklen_t size = sizeof who;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size);
  if (who.uid != this_process().uid) return;  // another user's process: hang up
  // The hello is sent right after connect: wait for it briefly, off the loop's state.
  auto held = std::make_shared<Fd>(std::move(socket));
  const int fd = held->get();
  hub::watch(fd, [this, held, fd, pid = static_cast<uint32_t>(who.pid)](uint32_t) {
    Packet packet;
    Fd none;
    const ptrdiff_t got = recv_packet(fd, &packet, sizeof packet, &none);
    if (got < 0) return;
    hub::unwatch(fd);
    if (got != sizeof packet || packet.protocol != kProtocol || packet.type != kHello ||
        packet.secret != this_process().secret)
      return;
    admit(packet.key, std::move(*held), pid);
  });
}

std::shared_ptr<Peer> Peers::admit(const Key& id, Fd socket, uint32_t pid) {
  auto peer = std::make_shared<Peer>(id, std::move(socket), pid);
  {
    std::lock_guard lock(mutex_);
    peers_[id] = peer;
    ring(changed_);
  }
  hub::call([&] {
    hub::watch(peer->socket_.get(), [this, peer](uint32_t) { readable(peer); });
    if (peer->pidfd_)
      hub::watch(peer->pidfd_.get(), [this, peer](uint32_t) {
        readable(peer);  // its goodbye may still lie in the socket
        lost(peer);
      });
  });
  return peer;
}

std::shared_ptr<Peer> Peers::connect(const Process& process, Patience& patience) {
  const bool ours = this_process().id < process.id;
  std::shared_ptr<Peer> peer;
  wait(
      changed_,
      [&] {
        std::lock_guard lock(mutex_);
        if (const auto found = peers_.find(process.id); found != peers_.end()) peer = found->second;
        return peer || (ours && connecting_.insert(process.id).second);
      },
      patience);
  if (peer) return peer;
  auto over = [&](void*) {
    std::lock_guard lock(mutex_);
    connecting_.erase(process.id);
    ring(changed_);
  };
  const std::unique_ptr<void, decltype(over)> connecting(this, over);
  Fd socket = local_connect(socket_name(process.id), patience);
  ucred who{};
  socklen_t size = sizeof who;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size);
  Packet hello;
  hello.type = kHello, hello.key = this_process().id, hello.secret = process.secret;
  if (!send_packet(socket.get(), &hello, sizeof hello))
    fail(HCCL_E_REMOTE, "process %u of this host refused the connection", process.pid);
  return admit(process.id, std::move(socket), static_cast<uint32_t>(who.pid));
}

void Peers::on_gone(std::function<void(const Peer&, bool)> callback) {
  std::lock_guard lock(mutex_);
  on_gone_.push_back(std::move(callback));
}

void Peers::readable(const std::shared_ptr<Peer>& peer) {
  for (;;) {
    Packet packet;
    Fd passed;
    const ptrdiff_t got = recv_packet(peer->socket_.get(), &packet, sizeof packet, &passed);
    if (got < 0) return;
    if (got != sizeof packet || packet.protocol != kProtocol) return lost(peer);
    switch (packet.type) {
      case kGoodbye: {
        std::lock_guard lock(mutex_);
        peer->said_goodbye_ = true;
        break;
      }
      case kAskArena: {
        std::lock_guard lock(mutex_);
        const auto found = offers_.find(packet.number);
        packet.type = kAnswer;
        packet.number = found == offers_.end() ? 0 : found->second.size;
        send_packet(peer->socket_.get(), &packet, sizeof packet, found == offers_.end() ? -1 : found->second.fd.get());
        break;
      }
      case kAskBoard: {
        std::lock_guard lock(mutex_);
        if (boards_.count(packet.key))
          answer_board(peer, packet.request, packet.key);
        else
          waiting_.push_back({peer, packet.request, packet.key});
        break;
      }
      case kAnswer: {
        std::lock_guard lock(mutex_);
        const auto found = peer->answers_.find(packet.request);
        if (found != peer->answers_.end()) {
          found->second.fd = std::move(passed);
          found->second.size = packet.number;
          found->second.here = true;
          ring(changed_);
        }
        break;
      }
      default:
        return lost(peer);
    }
  }
}

void Peers::lost(const std::shared_ptr<Peer>& peer) {
  bool orderly;
  std::vector<std::function<void(const Peer&, bool)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (peer->gone_) return;
    peer->gone_ = true;
    orderly = peer->said_goodbye_;
    ring(changed_);
    callbacks = on_gone_;
    peers_.erase(peer->id_);
  }
  hub::unwatch(peer->socket_.get());
  if (peer->pidfd_) hub::unwatch(peer->pidfd_.get());
  for (const auto& callback : callbacks) callback(*peer, orderly);
}

void Peers::answer_board(const std::shared_ptr<Peer>& peer, uint64_t request, const Key& key) {
  Packet packet;
  packet.type = kAnswer, packet.request = request;
  send_packet(peer->socket_.get(), &packet, sizeof packet, boards_.at(key)->fd());
}

void Peers::publish_board(const Key& key, std::shared_ptr<Board> board) {
  std::lock_guard lock(mutex_);
  boards_[key] = std::move(board);
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].key != key) {
      ++i;
      continue;
    }
    if (auto peer = waiting_[i].peer.lock()) answer_board(peer, waiting_[i].request, key);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
  }
  ring(changed_);
}

void Peers::withdraw_board(const Key& key) {
  std::lock_guard lock(mutex_);
  boards_.erase(key);
}

std::shared_ptr<Board> Peers::own_board(const Key& key, Patience& patience) {
  std::shared_ptr<Board> board;
  wait(
      changed_,
      [&] {
        std::lock_guard lock(mutex_);
        if (const auto found = boards_.find(key); found != boards_.end()) board = found->second;
        return board != nullptr;
      },
      patience);
  return board;
}

void Peers::offer_arena(uint64_t id, int fd, uint64_t size) {
  std::lock_guard lock(mutex_);
  if (offers_.count(id)) return;
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) fail(HCCL_E_SYSCALL, "cannot duplicate the descriptor of device memory: %s", strerror(errno));
  offers_.emplace(id, Offer{std::move(copy), size});
}

void Peers::forget_memory() {
  std::lock_guard lock(mutex_);
  offers_.clear();
  for (auto& [id, peer] : peers_) peer->arenas_.clear();
}

}  // namespace softnpu::hccl
