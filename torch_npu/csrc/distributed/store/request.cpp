#include "csrc/distributed/store/request.h"

#include <string>

namespace npu::distributed::store {
namespace {

// 4 and 8: so many bytes; k: a key; t: a text; n: a count, after which the rest comes so many times.
const char* fields_of(Query query) {
  switch (query) {
    case Query::kNumKeys:
    case Query::kListKeys:
    case Query::kCancelWait:
      return "";
    case Query::kValidate:
    case Query::kPing:
      return "4";
    case Query::kGet:
    case Query::kDelete:
    case Query::kQueuePop:
    case Query::kQueueLength:
    case Query::kWaitGet:
    case Query::kWaitPop:
      return "k";
    case Query::kAdd:
    case Query::kBarrier:
      return "k8";
    case Query::kSet:
    case Query::kAppend:
    case Query::kQueuePush:
      return "kt";
    case Query::kCompareSet:
      return "ktt";
    case Query::kCheck:
    case Query::kWait:
    case Query::kMultiGet:
      return "nk";
    case Query::kMultiSet:
      return "nkt";
    case Query::kLink:
      break;  // the connection's first byte, and no client's request
  }
  throw ProtocolError("request " + std::to_string(static_cast<int>(query)) + ", which does not exist");
}

}  // namespace

size_t RequestEnd::find(std::string_view bytes) {
  if (at_ == 0) {
    if (bytes.empty()) return 0;
    fields_ = next_ = fields_of(static_cast<Query>(bytes[0]));
    at_ = rounds_ = 1;
  }
  while (rounds_) {
    for (; *next_; ++next_) {
      Reader reader(bytes.substr(at_));
      std::string_view text;
      uint64_t number = 0;
      uint32_t word = 0;
      bool there = false;
      switch (*next_) {
        case '4':
          there = reader.value(word);
          break;
        case '8':
          there = reader.value(number);
          break;
        case 'k':
          there = reader.key(text);
          break;
        case 't':
          there = reader.text(text);
          break;
        case 'n':
          there = reader.count(number);
          break;
      }
      if (!there) return 0;
      at_ = bytes.size() - reader.rest().size();
      if (at_ > kLargestRequest) throw ProtocolError("a request of more than " + std::to_string(kLargestRequest));
      if (*next_ != 'n') continue;
      fields_ = next_ + 1;
      rounds_ = number;
      if (rounds_ == 0) return at_;
    }
    next_ = fields_;
    --rounds_;
  }
  return at_;
}

}  // namespace npu::distributed::store
