#include "softnpu/trace/recorder.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "softnpu/runtime/error.h"
#include "softnpu/trace/record_file.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;
namespace file = softnpu::prof::file;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/anycend-recorder-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  // The profiles in it, in order.
  std::vector<std::string> profiles() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string path;
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Read {
  std::map<uint32_t, std::string> texts;
  std::vector<file::Task> tasks;
  std::vector<file::Call> calls;
  std::vector<file::Mark> marks;
  std::vector<file::Memory> memory;
  std::vector<file::Clock> clocks;
};

template <class Record>
void take(std::vector<Record>& into, const char* at, uint32_t size) {
  BOOST_TEST_REQUIRE(size == sizeof(Record));
  memcpy(&into.emplace_back(), at, size);
}

Read read(const std::string& profile) {
  const std::string bytes = content(profile + "/host/data/records");
  Read out;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t head[2];
    BOOST_TEST_REQUIRE(at + sizeof head <= bytes.size());
    memcpy(head, &bytes[at], sizeof head);
    at += sizeof head;
    BOOST_TEST_REQUIRE(at + head[1] <= bytes.size());
    const char* record = &bytes[at];
    uint32_t number;
    switch (head[0]) {
      case file::kText:
        memcpy(&number, record, sizeof number);
        out.texts[number].assign(record + sizeof number, head[1] - sizeof number);
        break;
      case file::kTask:
        take(out.tasks, record, head[1]);
        break;
      case file::kCall:
        take(out.calls, record, head[1]);
        break;
      case file::kMark:
        take(out.marks, record, head[1]);
        break;
      case file::kMemory:
        take(out.memory, record, head[1]);
        break;
      case file::kClock:
        take(out.clocks, record, head[1]);
        break;
      default:
        BOOST_ERROR("there is no such kind of record");
    }
    at += head[1];
  }
  return out;
}

// Every instance of it is a kernel.
struct Kernel {
  static int run(void*) noexcept { return 0; }
  static void describe() {
    static const bool once = trace::describe(run, [](const void*, trace::Description& what) {
      what.kind = trace::Kind::kKernel;
      what.in = {"2,3;3", "FLOAT;FLOAT", "ND;ND"};
      what.out = {"2,3", "FLOAT", "ND"};
    });
    (void)once;
  }
};

void launch(TestStream& s, Cost cost) { s->submit(Work({Kernel::run, nullptr, nullptr, "aclnnAdd", cost})); }

int refused(const prof::Choice& choice) {
  try {
    prof::Recorder::get().begin(choice);
  } catch (const Error& error) {
    return error.code;
  }
  return 0;
}

// While it lives no thread can be had: each is to have a stack larger than the address space.
struct NoThreads {
  NoThreads() {
    pthread_getattr_default_np(&before);
    pthread_attr_t wide;
    pthread_attr_init(&wide);
    pthread_attr_setstacksize(&wide, size_t{1} << 60);
    pthread_setattr_default_np(&wide);
    pthread_attr_destroy(&wide);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before);
    pthread_attr_destroy(&before);
  }
  pthread_attr_t before;
};

// While it lives no file may be longer than so many bytes, as on a full disk.
struct FullDisk {
  explicit FullDisk(size_t bytes) : handler(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit none{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
  }
  sighandler_t handler;
  rlimit before;
};

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_recorder)

BOOST_AUTO_TEST_CASE(a_profile_has_its_tasks_with_their_calls_and_tensors) {
  Kernel::describe();
  Folder folder;
  TestStream s;
  launch(s, Cost::kTiny);  // before
  sync(s);
  prof::Recorder::get().begin({.folder = folder.path, .devices = {0}});
  launch(s, Cost::kTiny);
  launch(s, Cost::kSerial);
  sync(s);
  prof::Recorder::get().end();
  launch(s, Cost::kTiny);  // after
  sync(s);
  BOOST_TEST_REQUIRE(folder.profiles().size() == 1u);
  Read r = read(folder.profiles()[0]);
  BOOST_TEST_REQUIRE(r.tasks.size() == 2u);
  BOOST_TEST_REQUIRE(r.calls.size() == 2u);
  BOOST_TEST(r.texts[r.tasks[0].name] == "aclnnAdd");
  BOOST_TEST(r.texts[r.tasks[1].in.shapes] == "2,3;3");
  BOOST_TEST(r.texts[r.tasks[1].out.types] == "FLOAT");
  BOOST_TEST(r.tasks[0].task < r.tasks[1].task);
  BOOST_TEST(r.tasks[0].correlation == r.calls[0].correlation);
  BOOST_TEST_REQUIRE(r.clocks.size() == 2u);
  BOOST_TEST((r.clocks[0].real <= r.tasks[0].began && r.tasks[1].ended <= r.clocks[1].real));
  BOOST_TEST(std::filesystem::is_directory(folder.profiles()[0] + "/device_0"));
  BOOST_TEST(content(folder.profiles()[0] + "/host/info.json").find("\"devices\": [0]") != std::string::npos);
  BOOST_TEST(content(folder.profiles()[0] + "/host/start_info").find("clockMonotonicRaw") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_was_not_asked_for_is_not_recorded) {
  Kernel::describe();
  Folder folder;
  TestStream s;
  prof::Recorder::get().begin({.folder = folder.path, .devices = {1}});
  launch(s, Cost::kTiny);
  sync(s);
  prof::Recorder::get().end();
  prof::Recorder::get().begin({.folder = folder.path, .calls = false, .tensors = false});
  launch(s, Cost::kTiny);
  sync(s);
  prof::Recorder::get().end();
  BOOST_TEST_REQUIRE(folder.profiles().size() == 2u);
  BOOST_TEST(read(folder.profiles()[0]).tasks.empty());
  Read r = read(folder.profiles()[1]);
  BOOST_TEST_REQUIRE(r.tasks.size() == 1u);
  BOOST_TEST(r.tasks[0].in.shapes == 0u);
  BOOST_TEST(r.calls.empty());
}

BOOST_AUTO_TEST_CASE(one_profile_at_a_time_in_a_folder_that_can_be_written) {
  Folder folder;
  BOOST_TEST(refused({.folder = "/proc/none"}) == 100003);
  prof::Recorder::get().begin({.folder = folder.path});
  BOOST_TEST(refused({.folder = folder.path}) == 100042);
  prof::Recorder::get().end();
  BOOST_CHECK_THROW(prof::Recorder::get().end(), Error);
}

BOOST_AUTO_TEST_CASE(a_profile_that_cannot_begin_leaves_nothing_begun) {
  Kernel::describe();
  Folder folder;
  TestStream s;
  const size_t before = open_files();
  {
    const NoThreads none;
    BOOST_CHECK_THROW(prof::Recorder::get().begin({.folder = folder.path, .devices = {0}, .memory_hz = 50}),
                      std::system_error);
  }
  BOOST_TEST(!prof::Recorder::get().running());
  {
    const FullDisk full(0);
    BOOST_TEST(refused({.folder = folder.path}) == 100003);
  }
  BOOST_TEST(!prof::Recorder::get().running());
  BOOST_TEST(open_files() == before);
  prof::Recorder::get().begin({.folder = folder.path, .devices = {0}, .memory_hz = 50});
  launch(s, Cost::kTiny);
  sync(s);
  prof::Recorder::get().end();
  BOOST_TEST(open_files() == before);
  size_t tasks = 0;
  for (const std::string& profile : folder.profiles()) tasks += read(profile).tasks.size();
  BOOST_TEST(tasks == 1u);
}

BOOST_AUTO_TEST_CASE(a_profile_on_a_full_disk_says_so_and_ends_where_it_was) {
  Kernel::describe();
  Folder folder;
  TestStream s;
  constexpr size_t kRoom = 100'001;  // which ends in the midst of a record
  {
    const FullDisk full(kRoom);
    prof::Recorder::get().begin({.folder = folder.path, .devices = {0}});
    for (int i = 0; i < 8000; ++i) launch(s, Cost::kTiny);  // more than 1 MB: a part is written meanwhile
    sync(s);
  }
  launch(s, Cost::kTiny);  // now there would be room
  sync(s);
  BOOST_CHECK_THROW(prof::Recorder::get().end(), Error);
  const std::string profile = folder.profiles()[0], info = content(profile + "/host/info.json");
  BOOST_TEST(content(profile + "/host/data/records").size() == kRoom);
  for (const char* said : {"\"whole\": false", "\"lost\": true", "\"bytes\": 100001", "\"devices\": [0]"})
    BOOST_TEST(info.find(said) != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(threads_submit_while_profiles_begin_and_end) {
  Kernel::describe();
  Folder folder;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      TestStream s;
      while (!done.load()) {
        launch(s, i == 0 ? Cost::kTiny : Cost::kSerial);
        if (i == 2) trace::mark({.id = 1, .name = trace::interned("here")}, nullptr);
        sync(s);
      }
    });
  for (int i = 0; i < 10; ++i) {
    prof::Recorder::get().begin({.folder = folder.path, .devices = {0}, .memory_hz = 50});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    prof::Recorder::get().end();
  }
  done.store(true);
  for (auto& thread : threads) thread.join();
  BOOST_TEST_REQUIRE(folder.profiles().size() == 10u);
  size_t tasks = 0;
  for (const std::string& profile : folder.profiles()) {
    Read r = read(profile);
    tasks += r.tasks.size();
    BOOST_TEST(r.memory.size() >= 2u);
    for (const file::Task& task : r.tasks) BOOST_TEST(r.texts[task.name] == "aclnnAdd");
  }
  BOOST_TEST(tasks > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
