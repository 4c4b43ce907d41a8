#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include <catch2/catch_test_macros.hpp>

#include <support/temporary_folder.hpp>
#include <tenon/runtime/topology.hpp>

namespace {

/// A folder like /sys/devices/system/cpu.
class Machine {
 public:
  /// Adds the next processor.
  void add(int package, int core) {
    const auto name = "cpu" + std::to_string(processors_.size()) + "/topology";
    std::filesystem::create_directories(folder_.path() / name);
    folder_.write(name + "/physical_package_id", std::to_string(package) + "\n");
    folder_.write(name + "/core_id", std::to_string(core) + "\n");
    add_undescribed();
  }
  void add_undescribed() { processors_.push_back(static_cast<int>(processors_.size())); }

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] int cores() const { return tenon::detail::physical_cores(processors_, path()); }
  [[nodiscard]] int cores(const std::vector<int>& of) const { return tenon::detail::physical_cores(of, path()); }

 private:
  tenon_test::TemporaryFolder folder_;
  std::vector<int> processors_;
};

}  // namespace

TEST_CASE("topology: cpu.max as the kernel writes it", "[topology]") {
  using tenon::detail::cgroup_quota_cores;
  CHECK(cgroup_quota_cores("max", "100000") == 0);  // 0: no limit
  CHECK(cgroup_quota_cores("100000", "100000") == 1);
  CHECK(cgroup_quota_cores("150000", "100000") == 1);  // one and a half: a second thread would be throttled
  CHECK(cgroup_quota_cores("200000", "100000") == 2);
  CHECK(cgroup_quota_cores("50000", "100000") == 1);  // never below one
  CHECK(cgroup_quota_cores("1000000", "50000") == 20);
  CHECK(cgroup_quota_cores("300000", "") == 3);  // the period's default
  // And what nobody should write.
  CHECK(cgroup_quota_cores("-1", "100000") == 0);  // version 1 writes this for no limit
  CHECK(cgroup_quota_cores("", "") == 0);
  CHECK(cgroup_quota_cores("0", "100000") == 0);
  CHECK(cgroup_quota_cores("100000", "0") == 0);
  CHECK(cgroup_quota_cores("100000", "-3") == 0);
  CHECK(cgroup_quota_cores("nonsense", "100000") == 0);
  CHECK(cgroup_quota_cores("nan", "100000") == 0);
  CHECK(cgroup_quota_cores("1e300", "1") >= 1);
  CHECK(cgroup_quota_cores("inf", "1") >= 1);
}

TEST_CASE("E12: the default is physical cores that may be used, not SMT threads", "[topology]") {
  const int threads = tenon::default_thread_count();
  CHECK(threads >= 1);
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  if (processors > 0) CHECK(threads <= processors);
  const int cores = tenon::detail::allowed_physical_cores();
  if (cores > 0) CHECK(threads <= cores);
  const int limit = tenon::detail::cgroup_limit();
  if (limit > 0) CHECK(threads <= limit);
}

TEST_CASE("E12: SMT threads of a core count once, however they are numbered", "[topology]") {
  Machine siblings_far;  // 0 to 3 are the cores, 4 to 7 their second threads, as most servers number them
  for (int processor = 0; processor < 8; ++processor) siblings_far.add(0, processor % 4);
  CHECK(siblings_far.cores() == 4);
  CHECK(siblings_far.cores({0, 4}) == 1);  // bound to the two threads of one core
  CHECK(siblings_far.cores({0, 1, 2}) == 3);

  Machine siblings_near;
  for (int processor = 0; processor < 8; ++processor) siblings_near.add(0, processor / 2);
  CHECK(siblings_near.cores() == 4);
  CHECK(siblings_near.cores({2, 3}) == 1);
}

TEST_CASE("E13: cores are counted over all sockets", "[topology]") {
  Machine one_core_each;  // as virtual machines often are: every core says that it is core 0 of its socket
  for (int socket = 0; socket < 6; ++socket) one_core_each.add(socket, 0);
  CHECK(one_core_each.cores() == 6);
  CHECK(one_core_each.cores({1, 4}) == 2);

  Machine smt;  // two sockets of three cores, numbered with gaps, two threads each
  for (int thread = 0; thread < 2; ++thread) {
    for (int socket = 0; socket < 2; ++socket) {
      for (const int core : {0, 1, 8}) smt.add(socket, core);
    }
  }
  CHECK(smt.cores() == 6);
  CHECK(smt.cores({0, 1, 2, 6, 7, 8}) == 3);  // bound to the first socket
}

TEST_CASE("E12: processors that the system does not describe are cores", "[topology]") {
  Machine machine;
  machine.add_undescribed();
  machine.add_undescribed();
  CHECK(machine.cores() == 2);
  machine.add(0, 5);
  machine.add(0, 5);
  CHECK(machine.cores() == 3);
  CHECK(machine.cores({}) == 0);
}

#ifdef __linux__
TEST_CASE("E12: the processors are those that the process may run on", "[topology]") {
  Machine none_described;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CHECK(tenon::detail::allowed_physical_cores(none_described.path()) == CPU_COUNT(&allowed));
}

TEST_CASE("E12: a process bound to one processor uses one thread", "[topology]") {
  cpu_set_t before;
  CPU_ZERO(&before);
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  const int threads = tenon::default_thread_count();
  ::sched_setaffinity(0, sizeof before, &before);
  CHECK(threads == 1);
}
#endif
