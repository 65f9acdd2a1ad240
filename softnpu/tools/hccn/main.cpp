// hccn_tool: the network of the software NPUs, with the options and outputs of the vendor's tool.
//   hccn_tool -i <device> <option> -g | -s <word> <value> ...
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
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

// The words behind -g and -s are those of `form`, how the option is called: "-ip -s address <address> netmask <netmask>".
void check_words(const Request& request, const char* form) {
  const std::vector<std::string>& given = request.words;
  for (size_t i = 0; i < given.size(); i += 2) {
    bool known = false;
    std::istringstream words(form);
    for (std::string word; words >> word;) known = known || (word[0] != '-' && word[0] != '<' && word == given[i]);
    if (!known) throw Refused{"'" + given[i] + "' is not understood: hccn_tool -i <device> " + form};
  }
}

Request parse(int argc, char** argv, const Command** command) {
  auto word = [&](int i) -> std::string { return i < argc ? argv[i] : ""; };
  if (word(1) != "-i") throw Refused{"expected -i <device> first; hccn_tool -h lists the options"};
  char* end = nullptr;
  const std::string number = word(2);
  const long device = strtol(number.c_str(), &end, 10);
  if (number.empty() || *end || device < 0 || device >= softnpu::machine::chip_count())
    throw Refused{"device '" + number + "' does not exist: there are " +
                  std::to_string(softnpu::machine::chip_count()) + " (ANYCEND_DEVICES), counted from 0"};
  for (const Command& c : commands())
    if (word(3) == c.name) *command = &c;
  if (!*command) throw Refused{"unknown option '" + word(3) + "'; hccn_tool -h lists the options"};
  const std::string way = word(4);
  if ((way != "-g" || !(*command)->get) && (way != "-s" || !(*command)->put))
    throw Refused{word(3) + " takes " + ((*command)->put ? "-g or -s" : "-g") + ", not '" + way + "'"};
  Request request{static_cast<int>(device), way == "-s", {}};
  for (int i = 5; i < argc; ++i) request.words.push_back(argv[i]);
  check_words(request, request.set ? (*command)->put : (*command)->get);
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) return usage(stdout), 0;
  std::string error;
  try {
    const Command* command = nullptr;
    const Request request = parse(argc, argv, &command);
    Conf conf;
    command->run(request, conf);
    return 0;
  } catch (const Refused& refused) {
    error = refused.text;
  } catch (const softnpu::Error& e) {
    error = e.message;
  } catch (const std::exception& e) {
    error = e.what();
  }
  fprintf(stderr, "hccn_tool: %s\nCmd execute failed!\n", error.c_str());
  return 1;
}
