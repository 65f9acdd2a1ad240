// torch_npu._C._distributed_c10d: ProcessGroupHCCL and its Options, and the parallel store, as torch_npu.distributed gives them to PyTorch.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "csrc/distributed/group.h"
#include "csrc/distributed/mailbox.h"
#include "csrc/distributed/recorder.h"
#include "csrc/distributed/store/parallel_store.h"
#include "csrc/distributed/store/proxy.h"
#include "csrc/python/bind.h"
#include "csrc/python/holder.h"

namespace py = pybind11;

namespace npu::python {

using distributed::ParallelStore;
using distributed::ProcessGroupHCCL;

namespace {

void bind_store(py::module& m) {
  py::class_<ParallelStore, c10::intrusive_ptr<ParallelStore>, c10d::Store>(
      m, "ParallelStore",
      "A torch.distributed.Store on the parallel store's server; the arguments are TCPStore's. When a request that "
      "waits for no other client has no answer after answer_timeout, it and every later one fail; clone() connects "
      "anew.")
      .def(py::init([](const std::string& host_name, uint16_t port, std::optional<int64_t> world_size, bool is_master,
                       std::chrono::milliseconds timeout, bool wait_for_workers, bool multi_tenant,
                       std::optional<int> master_listen_fd, std::optional<int64_t> proxy,
                       std::chrono::milliseconds answer_timeout) {
             const py::gil_scoped_release without;
             distributed::ParallelStoreOptions options;
             options.port = port;
             options.is_server = is_master;
             if (world_size && *world_size > 0) options.world_size = world_size;
             options.timeout = timeout;
             options.wait_for_workers = wait_for_workers;
             options.multi_tenant = multi_tenant;
             options.listen_fd = master_listen_fd;
             options.proxy = proxy;
             options.answer_timeout = answer_timeout;
             return c10::make_intrusive<ParallelStore>(host_name, options);
           }),
           py::arg("host_name"), py::arg("port"), py::arg("world_size") = py::none(), py::arg("is_master") = false,
           py::arg("timeout") = c10d::Store::kDefaultTimeout, py::arg("wait_for_workers") = true,
           py::arg("multi_tenant") = false, py::arg("master_listen_fd") = py::none(), py::arg("proxy") = py::none(),
           py::arg("answer_timeout") = distributed::ParallelStoreOptions{}.answer_timeout)
      .def_property_readonly("host", &ParallelStore::host, "The server's host, as it was given.")
      .def_property_readonly("port", &ParallelStore::port,
                             "The server's port; with is_master and port 0, the chosen one.");
  py::class_<distributed::store::Proxy>(m, "_StoreProxy", "Carries the clients of this host over one connection.")
      .def(py::init([](const std::string& host_name, uint16_t port, std::chrono::milliseconds timeout) {
             const py::gil_scoped_release without;
             return std::make_unique<distributed::store::Proxy>(host_name, port, timeout);
           }),
           py::arg("host_name"), py::arg("port"), py::arg("timeout"));
}

void bind_options(py::handle group) {
  using distributed::GroupOptions;
  py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options> options(
      group, "Options",
      "pg_options of the backend hccl, for init_process_group and new_group: is_high_priority_stream (streams of high "
      "priority for the group's calls), hccl_config (a dict for HCCL; a key it does not take is a ValueError or "
      "TypeError at the assignment), op_timeout (a timedelta; by torch's name, timeout) and group_id (group_name).");
  const auto copy = [](const GroupOptions& self) { return c10::make_intrusive<GroupOptions>(self); };
  options
      .def(py::init([](bool is_high_priority_stream) {
             auto made = c10::make_intrusive<GroupOptions>();
             made->is_high_priority_stream = is_high_priority_stream;
             return made;
           }),
           py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &GroupOptions::is_high_priority_stream,
                     "Whether the group's streams have high priority (torch.npu.Stream(priority=-1)).")
      .def_property(
          "hccl_config", [](const GroupOptions& self) { return self.hccl_config; },
          [](GroupOptions& self, distributed::HcclSettings config) {
            distributed::check_hccl_config(config);
            self.hccl_config = std::move(config);
          },
          "What HCCL takes for the group's communicators: hccl_buffer_size (MB), group_name, qos_service_level, "
          "qos_traffic_class, hccl_op_expansion_mode, hccl_deterministic. Read as a copy: assign the whole dict.")
      // The vendor's names of what c10d has.
      .def_readwrite("op_timeout", &GroupOptions::timeout, "torch.distributed's timeout: how long a call may wait.")
      .def_readwrite("group_id", &GroupOptions::group_name, "torch.distributed's group_name.")
      .def("__copy__", copy)
      .def("__deepcopy__", [copy](const GroupOptions& self, const py::dict&) { return copy(self); }, py::arg("memo"));
}

}  // namespace

void bind_distributed(py::module& module) {
  // The base classes are bound there.
  py::module::import("torch._C._distributed_c10d");
  py::module m = module.def_submodule("_distributed_c10d", "ProcessGroupHCCL");
  py::class_<ProcessGroupHCCL, EndsWithoutGil<ProcessGroupHCCL>, c10d::Backend> group(
      m, "ProcessGroupHCCL",
      "The backend hccl of torch.distributed: collectives and messages of npu tensors over CANN's libhccl. Made by "
      "init_process_group(\"hccl\") and new_group; its methods are c10d's. Shapes, types and devices that do not fit "
      "are "
      "errors at the call (ValueError, TypeError or RuntimeError); what fails later (a rank that died, a timeout) is a "
      "DistBackendError that names the rank, "
      "raised by wait() or the next call.");
  bind_options(group);
  group
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       c10::intrusive_ptr<ProcessGroupHCCL::Options> options) {
             const py::gil_scoped_release without;  // no call_guard: pybind11 finishes the object with the lock held
             auto made = c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, std::move(options));
             made->let_others_ask();
             return made;
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
      .def("get_hccl_comm_name", &ProcessGroupHCCL::hccl_comm_name, py::arg("rank"), py::arg("init_comm") = true,
           "The communicator's name in HCCL; \"\" where there is none and init_comm is False.",
           py::call_guard<py::gil_scoped_release>())
      .def(
          "get_hccl_comm", [](ProcessGroupHCCL& self, int rank) { return self.hccl_comm(rank, true); }, py::arg("rank"),
          "The HcclComm as a number.", py::call_guard<py::gil_scoped_release>())
      .def("_set_default_timeout", &ProcessGroupHCCL::setTimeout, py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      .def("comm_split_count", &ProcessGroupHCCL::split_count,
           "How many groups were split off this one's communicator.")
      .def("_abandon_coalescing", &ProcessGroupHCCL::abandon_coalescing, py::call_guard<py::gil_scoped_release>())
      .def("_reinit", &ProcessGroupHCCL::reinit, py::arg("rebuild"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly(
          "options",
          [](ProcessGroupHCCL& self) {
            return c10::static_intrusive_pointer_cast<ProcessGroupHCCL::Options>(self.getBackendOptions());
          },
          "The Options it was made with.");
  m.def(
      "_dump_hccl_trace",
      [](std::optional<bool> collectives, std::optional<bool> stacks, std::optional<bool> active) {
        std::string text;
        {
          const py::gil_scoped_release release;
          text = distributed::recorder::dump(collectives.value_or(true), stacks.value_or(true), active.value_or(false));
        }
        return py::bytes(text);
      },
      py::arg("includeCollectives") = py::none(), py::arg("includeStackTraces") = py::none(),
      py::arg("onlyActive") = py::none(), "The flight recorder's calls, pickled.");
  m.def(
      "_dump_hccl_trace_json",
      [](std::optional<bool> collectives, std::optional<bool> active) {
        return py::bytes(distributed::recorder::dump_json(collectives.value_or(true), active.value_or(false)));
      },
      py::arg("includeCollectives") = py::none(), py::arg("onlyActive") = py::none(),
      "The flight recorder's calls as JSON, without stacks.");
  bind_store(m);
  m.def("_stop_threads", no_gil([] {
          distributed::close_all_mailboxes();
          distributed::stop_watchdog();
        }));
}

}  // namespace npu::python
