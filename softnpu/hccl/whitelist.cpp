// See whitelist.h. The file: {"host_ip": ["10.0.0.1", ...], "device_ip": [...]}.
#include "softnpu/hccl/whitelist.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

Whitelist::Whitelist(const Settings& s) : on_(s.whitelist), file_(s.whitelist_file) {
  if (!on_) return;
  if (file_.empty())
    fail(HCCL_E_PARA, "HCCL_WHITELIST_DISABLE=0 asks for a white list, but HCCL_WHITELIST_FILE names none");
  std::ifstream in(file_);
  if (!in) fail(HCCL_E_OPEN_FILE_FAILURE, "cannot read the white list %s (HCCL_WHITELIST_FILE)", file_.c_str());
  const nlohmann::json root = nlohmann::json::parse(in, nullptr, false);
  if (!root.is_object() || !root.contains("host_ip") || !root["host_ip"].is_array())
    fail(HCCL_E_PARA, "the white list %s is not of the form {\"host_ip\": [\"...\"], \"device_ip\": [\"...\"]}",
         file_.c_str());
  for (const char* key : {"host_ip", "device_ip"})
    if (root.contains(key) && root[key].is_array())
      for (const auto& item : root[key])
        if (item.is_string()) addresses_.insert(item.get<std::string>());
}

void Whitelist::require(const std::string& address, const char* whose) const {
  if (!allows(address)) fail(HCCL_E_TCP_CONNECT, "the %s's address %s is %s", whose, address.c_str(), reason().c_str());
}

}  // namespace softnpu::hccl
