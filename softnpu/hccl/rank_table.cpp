// See rank_table.h.
#include "softnpu/hccl/rank_table.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

using Json = nlohmann::json;

// A field that must be there; `path` says where we are in the file.
const Json& field(const Json& in, const char* name, const std::string& path) {
  const auto found = in.find(name);
  if (found == in.end()) fail(HCCL_E_PARA, "rank table: %s/%s is missing", path.c_str(), name);
  return *found;
}

const Json& list(const Json& in, const char* name, const std::string& path) {
  const Json& value = field(in, name, path);
  if (!value.is_array() || value.empty())
    fail(HCCL_E_PARA, "rank table: %s/%s must be a list that is not empty", path.c_str(), name);
  return value;
}

std::string text(const Json& in, const char* name, const std::string& path) {
  const Json& value = field(in, name, path);
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    fail(HCCL_E_PARA, "rank table: %s/%s must be a text", path.c_str(), name);
  return value.get<std::string>();
}

// Numbers stand as texts in these files; plain numbers are taken too.
unsigned number(const Json& in, const char* name, const std::string& path) {
  const Json& value = field(in, name, path);
  if (value.is_number_unsigned()) return value.get<unsigned>();
  if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    if (!digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == std::string::npos)
      return static_cast<unsigned>(std::stoul(digits));
  }
  fail(HCCL_E_PARA, "rank table: %s/%s must be a number, not %s", path.c_str(), name, value.dump().c_str());
}

}  // namespace

RankTable read_rank_table(const char* file) {
  std::ifstream in(file);
  if (!in) fail(HCCL_E_OPEN_FILE_FAILURE, "cannot read the rank table %s", file);
  std::stringstream buffer;
  buffer << in.rdbuf();
  RankTable table;
  table.text = buffer.str();
  Json root;
  try {
    root = Json::parse(table.text);
  } catch (const Json::parse_error& error) {
    fail(HCCL_E_PARA, "rank table %s: not JSON: %s", file, error.what());
  }
  if (!root.is_object()) fail(HCCL_E_PARA, "rank table %s: / must be an object", file);
  if (const std::string version = text(root, "version", ""); version != "1.0")
    fail(HCCL_E_PARA, "rank table: /version is \"%s\"; this library reads \"1.0\"", version.c_str());
  if (const std::string status = text(root, "status", ""); status != "completed")
    fail(HCCL_E_PARA, "rank table: /status is \"%s\", not \"completed\"", status.c_str());
  const Json& servers = list(root, "server_list", "");
  if (root.contains("server_count") && number(root, "server_count", "") != servers.size())
    fail(HCCL_E_PARA, "rank table: /server_count is %u but /server_list has %zu", number(root, "server_count", ""),
         servers.size());
  std::vector<std::pair<RankEntry, std::string>> found;  // with the path, by order in the file
  std::vector<unsigned> ids;
  for (size_t i = 0; i < servers.size(); ++i) {
    const std::string path = "/server_list/" + std::to_string(i);
    const std::string server = text(servers[i], "server_id", path);
    const Json& devices = list(servers[i], "device", path);
    for (size_t j = 0; j < devices.size(); ++j) {
      const std::string here = path + "/device/" + std::to_string(j);
      RankEntry entry{server, devices[j].contains("device_ip") ? text(devices[j], "device_ip", here) : "",
                      static_cast<int>(number(devices[j], "device_id", here))};
      found.emplace_back(entry, here);
      ids.push_back(number(devices[j], "rank_id", here));
    }
  }
  table.ranks.resize(found.size());
  std::vector<bool> taken(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (ids[i] >= found.size())
      fail(HCCL_E_PARA, "rank table: %s/rank_id is %u, but there are %zu ranks", found[i].second.c_str(), ids[i],
           found.size());
    if (taken[ids[i]]) fail(HCCL_E_PARA, "rank table: %s/rank_id %u stands twice", found[i].second.c_str(), ids[i]);
    taken[ids[i]] = true;
    table.ranks[ids[i]] = found[i].first;
  }
  return table;
}

}  // namespace softnpu::hccl
