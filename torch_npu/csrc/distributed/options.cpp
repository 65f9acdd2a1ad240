// See options.h.
#include "csrc/distributed/options.h"

#include <c10/util/Exception.h>

#include <array>

namespace npu::distributed {
namespace {

struct Known {
  const char* name;
  int64_t least, most;  // of a number; a text has none
};
constexpr int64_t kText = -1;
// CANN's HcclCommConfig, as the vendor documents pg_options.hccl_config.
constexpr std::array kKnown{
    Known{"hccl_buffer_size", 1, INT32_MAX},  // MB
    Known{"group_name", kText, 32},           // the communicator's name: characters
    Known{"qos_service_level", 0, 7},        Known{"qos_traffic_class", 0, 255},
    Known{"hccl_op_expansion_mode", 0, 7},   Known{"hccl_deterministic", 0, 2},
};

}  // namespace

void check_hccl_config(const HcclSettings& config) {
  for (const auto& [name, value] : config) {
    const Known* known = nullptr;
    std::string names;
    for (const Known& k : kKnown) {
      if (name == k.name) known = &k;
      names += (names.empty() ? "" : ", ") + std::string(k.name);
    }
    TORCH_CHECK_VALUE(known, "ProcessGroupHCCL.Options.hccl_config has no \"", name, "\": there are ", names);
    if (known->least == kText) {
      TORCH_CHECK_TYPE(std::holds_alternative<std::string>(value), "hccl_config[\"", name, "\"] is a text");
      const std::string& text = std::get<std::string>(value);
      TORCH_CHECK_VALUE(!text.empty() && text.size() <= static_cast<size_t>(known->most), "hccl_config[\"", name,
                        "\"] has 1 to ", known->most, " characters, not ", text.size());
    } else {
      TORCH_CHECK_TYPE(std::holds_alternative<int64_t>(value), "hccl_config[\"", name, "\"] is a number");
      const int64_t number = std::get<int64_t>(value);
      TORCH_CHECK_VALUE(number >= known->least && number <= known->most, "hccl_config[\"", name, "\"] is one of ",
                        known->least, " to ", known->most, ", not ", number);
    }
  }
}

}  // namespace npu::distributed
