#include <algorithm>
#include <string>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#include <catch2/catch_test_macros.hpp>

#include <tenon/runtime/topology.hpp>

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

#ifdef __linux__
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
