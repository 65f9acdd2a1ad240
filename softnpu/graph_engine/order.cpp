// The order in which nodes run. See model.h.
#include <queue>

#include "softnpu/graph_engine/model.h"

namespace softnpu::graph {

// Of the nodes that may run, the first in the list: what reads a variable stands before what writes it, and keeps that place.
std::vector<int> order_of(const std::vector<Node>& nodes) {
  std::vector<std::vector<int>> followers(nodes.size());
  std::vector<int> missing(nodes.size());
  const auto edge = [&](int from, size_t to) {
    followers[static_cast<size_t>(from)].push_back(static_cast<int>(to));
    missing[to]++;
  };
  for (size_t i = 0; i < nodes.size(); i++) {
    for (const Source& source : nodes[i].inputs)
      if (source.node >= 0) edge(source.node, i);
    for (int before : nodes[i].after) edge(before, i);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); i++)
    if (!missing[i]) ready.push(static_cast<int>(i));
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (int follower : followers[static_cast<size_t>(order.back())])
      if (!--missing[static_cast<size_t>(follower)]) ready.push(follower);
  }
  for (size_t i = 0; i < nodes.size(); i++)
    if (missing[i]) throw Error(nodes[i].title() + ": it needs what needs it: the graph has a circle");
  return order;
}

}  // namespace softnpu::graph
