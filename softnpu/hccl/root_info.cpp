// See root_info.h.
#include "softnpu/hccl/root_info.h"

#include <cstring>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

struct Layout {
  char magic[8];
  uint32_t version, port;
  Key key;
  char address[64];
};
static_assert(sizeof(Layout) <= sizeof(HcclRootInfo));
constexpr char kMagic[8] = {'A', 'N', 'Y', 'C', 'H', 'C', 'C', 'L'};

}  // namespace

void encode(const RootInfo& info, HcclRootInfo* out) {
  Layout layout{};
  memcpy(layout.magic, kMagic, sizeof kMagic);
  layout.version = 1;
  layout.port = info.port;
  layout.key = info.key;
  strncpy(layout.address, info.address.c_str(), sizeof layout.address - 1);
  memset(out, 0, sizeof *out);
  memcpy(out, &layout, sizeof layout);
}

RootInfo decode(const HcclRootInfo& bytes) {
  Layout layout;
  memcpy(&layout, &bytes, sizeof layout);
  if (memcmp(layout.magic, kMagic, sizeof kMagic) != 0 || layout.version != 1 || layout.port > 65535)
    fail(HCCL_E_PARA, "the root info was not made by HcclGetRootInfo of this library");
  layout.address[sizeof layout.address - 1] = 0;
  return {layout.address, static_cast<uint16_t>(layout.port), layout.key};
}

}  // namespace softnpu::hccl
