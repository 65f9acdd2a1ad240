// See commands.h. The forms of the output are those of the vendor's tool: scripts look for words in them.
#include "softnpu/tools/hccn/commands.h"

#include <cstdio>

#include "softnpu/tools/hccn/net.h"

namespace softnpu::hccn {
namespace {

constexpr auto kLimit = std::chrono::milliseconds(1000);

std::string checked(std::string address) {
  if (!is_address(address)) throw Refused{address + " is not an IPv4 address"};
  return address;
}

std::string own_address(const Request& r, const Conf& conf) {
  const auto address = conf.get("address", r.device);
  if (!address)
    throw Refused{"device " + std::to_string(r.device) + " has no address in " + conf.path() + ": hccn_tool -i " +
                  std::to_string(r.device) + " -ip -s address <address> netmask <netmask>"};
  return *address;
}

// The interface of the host that carries the device's address; a software device has no card of its own.
std::string own_interface(const Request& r, const Conf& conf) {
  const auto address = conf.get("address", r.device);
  return address ? interface_with(*address) : "";
}

std::string interface_or_refuse(const Request& r, const Conf& conf) {
  const std::string address = own_address(r, conf), name = interface_with(address);
  if (name.empty())
    throw Refused{"no interface of this host has the address " + address + " of device " + std::to_string(r.device)};
  return name;
}

void ip(const Request& r, Conf& conf) {
  if (r.set) {
    const std::string address = checked(r.value("address")), netmask = r.value("netmask");
    if (!is_netmask(netmask)) throw Refused{netmask + " is not a netmask"};
    return conf.set({{"address", address}, {"netmask", netmask}}, r.device);
  }
  const std::string address = own_address(r, conf);
  printf("ipaddr:%s\nnetmask:%s\n", address.c_str(), conf.get("netmask", r.device).value_or("255.255.255.0").c_str());
}

void gateway(const Request& r, Conf& conf) {
  if (r.set) return conf.set({{"gateway", checked(r.value("gateway"))}}, r.device);
  const auto known = conf.get("gateway", r.device);
  if (!known)
    throw Refused{"device " + std::to_string(r.device) + " has no gateway: hccn_tool -i " + std::to_string(r.device) +
                  " -gateway -s gateway <address>"};
  printf("default gateway:%s, Iface:eth%d\n", known->c_str(), r.device);
}

void netdetect(const Request& r, Conf& conf) {
  if (r.set) return conf.set({{"netdetect", checked(r.value("address"))}}, r.device);
  printf("netdetect addr: %s\n", conf.get("netdetect", r.device).value_or("0.0.0.0").c_str());
}

void net_health(const Request& r, Conf& conf) {
  const char* status = "Init";  // nothing to detect is set
  if (const auto address = conf.get("netdetect", r.device)) {
    const std::string source = own_interface(r, conf).empty() ? "" : own_address(r, conf);
    switch (ping(source, *address, 0, kLimit).echo) {
      case Echo::kSuccess:
        status = "Success";
        break;
      case Echo::kSocketFail:
        status = "Socket fail";
        break;
      case Echo::kTimeout:
        status = "Receive timeout";
        break;
      case Echo::kUnreachable:
        status = "Unreachable";
        break;
      case Echo::kTimeExceeded:
        status = "Time exceeded";
        break;
    }
  }
  printf("net health status: %s\n", status);
}

void link(const Request& r, Conf& conf) {
  const std::string interface = own_interface(r, conf);
  printf("link status: %s\n", !interface.empty() && is_up(interface) ? "UP" : "DOWN");
}

// No switch speaks here: it is the host's interface that introduces itself.
void lldp(const Request& r, Conf& conf) {
  const std::string interface = interface_or_refuse(r, conf);
  printf(
      "Chassis ID TLV\n\tMAC: %s\nPort ID TLV\n\tIfname: %s\nTime to Live TLV\n\t120\n"
      "System Name TLV\n\tanycend\nManagement Address TLV\n\tIPv4: %s\nEnd of LLDPDU TLV\n",
      mac_of(interface).c_str(), interface.c_str(), own_address(r, conf).c_str());
}

void tls(const Request& r, Conf& conf) {
  if (r.set) {
    const std::string enable = r.value("enable");
    if (enable != "0" && enable != "1") throw Refused{"-tls -s enable takes 0 or 1, not " + enable};
    if (enable == "1") throw Refused{"-tls -s enable 1 is not supported: links of the software NPU are not encrypted"};
    return conf.set({{"tls_enable", enable}}, r.device);
  }
  printf(
      "dev_id:%d, tls switch[%s](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset), "
      "tls alarm time threshold[60]days\n",
      r.device, conf.get("tls_enable", r.device).value_or("0").c_str());
}

void ping_address(const Request& r, Conf& conf) {
  const std::string address = checked(r.value("address"));
  const std::string source = own_interface(r, conf).empty() ? "" : own_address(r, conf);
  constexpr int kPackets = 3;
  int received = 0;
  printf("device %d PING %s\n", r.device, address.c_str());
  for (int i = 0; i < kPackets; ++i) {
    const Answer answer = ping(source, address, static_cast<uint16_t>(i), kLimit);
    if (answer.echo == Echo::kSuccess)
      ++received, printf("recv seq=%d,time=%.6fms\n", i, answer.milliseconds);
    else
      printf("recv seq=%d,%s\n", i, answer.echo == Echo::kUnreachable ? "unreachable" : "timeout");
    fflush(stdout);
  }
  printf("%d packets transmitted, %d received, %.2f%% packet loss\n", kPackets, received,
         100.0 * (kPackets - received) / kPackets);
}

void stat(const Request& r, Conf& conf) {
  static constexpr struct {
    const char *key, *kernel;
  } kCounters[] = {
      {"mac_tx_total_pkt_num", "tx_packets"},      {"mac_tx_total_oct_num", "tx_bytes"},
      {"mac_tx_bad_pkt_num", "tx_errors"},         {"mac_rx_total_pkt_num", "rx_packets"},
      {"mac_rx_total_oct_num", "rx_bytes"},        {"mac_rx_bad_pkt_num", "rx_errors"},
      {"mac_rx_fcs_err_pkt_num", "rx_crc_errors"}, {"nic_tx_drop_pkt_num", "tx_dropped"},
      {"nic_rx_drop_pkt_num", "rx_dropped"},
  };
  const std::string interface = interface_or_refuse(r, conf);
  printf("packet statistics:\n");
  for (const auto& c : kCounters)
    printf("%s:%llu\n", c.key, static_cast<unsigned long long>(statistic(interface, c.kernel)));
}

constexpr Command kCommands[] = {
    {"-ip", "-ip -g", "-ip -s address <address> netmask <netmask>", ip},
    {"-gateway", "-gateway -g", "-gateway -s gateway <address>", gateway},
    {"-netdetect", "-netdetect -g", "-netdetect -s address <address>", netdetect},
    {"-net_health", "-net_health -g", nullptr, net_health},
    {"-link", "-link -g", nullptr, link},
    {"-lldp", "-lldp -g", nullptr, lldp},
    {"-tls", "-tls -g", "-tls -s enable <0|1>", tls},
    {"-ping", "-ping -g address <address>", nullptr, ping_address},
    {"-stat", "-stat -g", nullptr, stat},
};

}  // namespace

std::string Request::value(const std::string& word) const {
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    if (words[i] == word) return words[i + 1];
  throw Refused{"a value for " + word + " is missing"};
}

std::span<const Command> commands() { return kCommands; }

}  // namespace softnpu::hccn
