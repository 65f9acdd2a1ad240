// Prints what the operators of a package are, for opp_build: a line of JSON each. Linked with the package's host side, run once.
#include <cstdio>
#include <set>

#include "host.h"

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return out + '"';
}

template <class T>
std::string numbers(const std::vector<T>& all) {
  std::string out;
  for (const T& n : all) out += (out.empty() ? "" : ", ") + std::to_string(static_cast<int>(n));
  return "[" + out + "]";
}

std::string of(const std::vector<std::unique_ptr<ops::OpParamDef>>& all) {
  std::string out = "[";
  for (const auto& p : all) {
    out += out.size() > 1 ? ", {" : "{";
    out += "\"name\": " + quoted(p->name) + ", \"kind\": " + std::to_string(p->kind) +
           ", \"follows\": " + quoted(p->follows) + ", \"product\": " + std::to_string(p->product) +
           ", \"by_value\": " + std::to_string(p->by_value) +
           ", \"computed_shape\": " + std::to_string(p->computed_shape) +
           ", \"as_it_lies\": " + std::to_string(p->as_it_lies) + ", \"zeroed\": " + std::to_string(p->zeroed) +
           ", \"filled\": " + std::to_string(p->filled) + ", \"any_format\": " + std::to_string(p->any_format) +
           ", \"formats\": " + numbers(p->formats) + ", \"unknown_formats\": " + numbers(p->unknown_formats) +
           ", \"types\": " + numbers(p->types) + ", \"compiled\": " + numbers(p->compiled) +
           ", \"version\": " + std::to_string(p->version) + "}";
  }
  return out + "]";
}

}  // namespace

int main() {
  for (const auto& [type, make] : ascendc_host::makers()) {
    const auto op = make();
    std::string attrs, configs;
    for (const auto& a : op->attrs)
      attrs += (attrs.empty() ? "" : ", ") + ("{\"name\": " + quoted(a->name) + ", \"type\": " + quoted(a->type) +
                                              ", \"version\": " + std::to_string(a->version) + "}");
    for (const auto& [soc, config] : op->core.configs) {
      configs += (configs.empty() ? "" : ", ") + quoted(soc) + ": {";
      if (config) {
        const auto& more = config->more;
        const auto said = [&more](const char* key) { return quoted(more.count(key) ? more.at(key) : std::string()); };
        configs += "\"file\": " + said("opFile.value") + ", \"kernel\": " + said("opInterface.value") +
                   ", \"inputs\": " + of(config->inputs) + ", \"outputs\": " + of(config->outputs);
      }
      configs += "}";
    }
    const bool tiling = op->core.tiling || ascendc_host::tilings().count(type);
    printf(
        "@opp_build {\"type\": %s, \"inputs\": %s, \"outputs\": %s, \"attrs\": [%s], \"configs\": {%s}, \"tiling\": "
        "%d, \"mc2\": "
        "%d, \"launch_empty\": %d}\n",
        quoted(type).c_str(), of(op->inputs).c_str(), of(op->outputs).c_str(), attrs.c_str(), configs.c_str(), tiling,
        op->mc2.used, op->core.launch_empty);
  }
}
