// The calling thread's recent message of the graph engine, without the standard library's types: error_message.cpp is compiled for another
// layout of std::string than the rest.
#pragma once

namespace softnpu::graph {

__attribute__((visibility("default"))) const char* recent_error() noexcept;

}  // namespace softnpu::graph
