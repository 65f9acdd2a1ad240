// What hccn_tool can do: an option and what it does with what stands behind -s or -g.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "softnpu/tools/hccn/conf.h"

namespace softnpu::hccn {

struct Request {
  int device;
  bool set;
  std::vector<std::string> words;  // after -s or -g: "address 192.168.1.1 netmask 255.255.255.0"
  // The value after a word; throws Refused when it is missing.
  std::string value(const std::string& word) const;
};

struct Command {
  const char* name;       // "-ip"
  const char *get, *put;  // how it is called, null when it is not
  void (*run)(const Request& request, Conf& conf);
};
std::span<const Command> commands();

}  // namespace softnpu::hccn
