// hccn_tool: the network of the software NPUs, with the options and outputs of the vendor's tool.
//   hccn_tool -i <device> <option> -g | -s <word> <value> ...
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softnpu/tools/hccn/commands.h"

using namespace softnpu::hccn;

namespace {

void usage(FILE* to) {
  fprintf(to, "usage: hccn_tool -i <device> <option>\n");
  for (const Command& c : commands()) {
    if (c.get) fprintf(to, "  %s\n", c.get);
    if (c.put) fprintf(to, "  %s\n", c.put);
  }
}

int devices() {
  const char* text = getenv("ANYCEND_DEVICES");
  return text && *text ? atoi(text) : 8;
}

Request parse(int argc, char** argv, const Command** command) {
  auto word = [&](int i) -> std::string { return i < argc ? argv[i] : ""; };
  if (word(1) != "-i") throw Refused{"expected -i <device> first; hccn_tool -h lists the options"};
  char* end = nullptr;
  const std::string number = word(2);
  const long device = strtol(number.c_str(), &end, 10);
  if (number.empty() || *end || device < 0 || device >= devices())
    throw Refused{"device '" + number + "' does not exist: there are " + std::to_string(devices()) +
                  " (ANYCEND_DEVICES), counted from 0"};
  for (const Command& c : commands())
    if (word(3) == c.name) *command = &c;
  if (!*command) throw Refused{"unknown option '" + word(3) + "'; hccn_tool -h lists the options"};
  const std::string way = word(4);
  if ((way != "-g" || !(*command)->get) && (way != "-s" || !(*command)->put))
    throw Refused{word(3) + " takes " + ((*command)->put ? "-g or -s" : "-g") + ", not '" + way + "'"};
  Request request{static_cast<int>(device), way == "-s", {}};
  for (int i = 5; i < argc; ++i) request.words.push_back(argv[i]);
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) return usage(stdout), 0;
  try {
    const Command* command = nullptr;
    const Request request = parse(argc, argv, &command);
    Conf conf;
    command->run(request, conf);
    return 0;
  } catch (const Refused& refused) {
    fprintf(stderr, "hccn_tool: %s\nCmd execute failed!\n", refused.text.c_str());
    return 1;
  }
}
