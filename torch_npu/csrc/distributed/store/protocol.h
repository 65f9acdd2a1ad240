// What clients and the server of the parallel store say to each other: the requests and their bytes.
// A client that waits for an answer (kWait, kBarrier, kWaitGet, kWaitPop) may only take that back (kCancelWait) until it has come.
// The first nineteen are those of PyTorch's TCPStore, so that its clients can use this server; the others are our own: one
// round trip where TCPStore needs two, and many clients on one connection.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace npu::distributed::store {

enum class Query : uint8_t {
  kValidate,     // magic
  kSet,          // key, value
  kCompareSet,   // key, expected, desired -> value
  kGet,          // key -> value, empty where there is none
  kAdd,          // key, int64 -> int64
  kCheck,        // n, keys -> byte: 0 all are there
  kWait,         // n, keys -> kDone when all are there
  kNumKeys,      // -> int64
  kDelete,       // key -> int64: how many were deleted
  kAppend,       // key, value
  kMultiGet,     // n, keys -> values
  kMultiSet,     // n, (key, value)
  kCancelWait,   // -> kCanceled, after the awaited answer if that was already under way
  kPing,         // uint32 -> the same
  kQueuePush,    // key, value
  kQueuePop,     // key -> int64 length before, value if that is not 0
  kQueueLength,  // key -> int64
  kListKeys,     // -> int64, keys
  kBarrier,      // key, int64 world -> kDone when so many have come
  // Our own.
  kWaitGet = 64,  // key -> kDone, value
  kWaitPop,       // key -> kDone, value
  kLink,          // from then on frames: uint32 channel, uint32 length (0: the channel ends), bytes
};

enum class Answer : uint8_t { kDone, kCanceled };

constexpr uint32_t kMagic = 0x3C85F7CE;
// TCPStore's limits are 8 KiB, 8 MiB and 128 Ki; whoever asks for more than these is closed.
constexpr uint64_t kLongestKey = uint64_t{64} << 10;
constexpr uint64_t kLongestText = uint64_t{64} << 20;
constexpr uint64_t kMostKeys = uint64_t{128} << 10;
constexpr uint64_t kLargestRequest = uint64_t{128} << 20;  // or answer
constexpr uint64_t kLargestTable = uint64_t{1} << 30;      // all keys, values and waits of a server
constexpr uint64_t kUnfinished = uint64_t{1} << 30;        // all requests of a server whose end has not come

struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out.append(text);
}

// Reads a request that may not have arrived as a whole: what returns a bool returns false where bytes are missing. The others are
// for one that is there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string_view rest() const { return rest_; }

  template <class T>
  bool value(T& to) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(&to, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }

  bool text(std::string_view& to, uint64_t longest = kLongestText) {
    uint64_t size = 0;
    if (!value(size)) return false;
    if (size > longest) throw ProtocolError("a text of " + std::to_string(size) + " bytes");
    if (rest_.size() < size) return false;
    to = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  bool key(std::string_view& to) { return text(to, kLongestKey); }

  template <class T>
  T value() {
    T to{};
    if (!value(to)) throw ProtocolError("a request that ends too early");
    return to;
  }

  std::string_view text() {
    std::string_view to;
    if (!text(to)) throw ProtocolError("a request that ends too early");
    return to;
  }

  bool count(uint64_t& to) {
    if (!value(to)) return false;
    if (to > kMostKeys) throw ProtocolError("a request about " + std::to_string(to) + " keys");
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace npu::distributed::store
