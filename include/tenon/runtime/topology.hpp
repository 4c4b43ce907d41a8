// How many threads a process should use by default: the physical cores that it may run on, not SMT threads, and not more
// than its cgroup's quota.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Cores in the text of a cgroup v2 `cpu.max` ("max 100000", "150000 100000"); 0 where there is no limit.
inline int cgroup_quota_cores(const std::string& quota, const std::string& period) {
  if (quota.empty() || quota == "max") return 0;
  char* end = nullptr;
  const double q = std::strtod(quota.c_str(), &end);
  const double p = period.empty() ? 100000.0 : std::strtod(period.c_str(), &end);
  if (!(q > 0.0) || !(p > 0.0)) return 0;
  return static_cast<int>(std::clamp(std::floor(q / p), 1.0, 65536.0));
}

/// The tightest quota from this process's cgroup up to the root; 0 where there is none.
inline int cgroup_limit() {
  std::ifstream self("/proc/self/cgroup");
  std::string line;
  int limit = 0;
  const auto narrow = [&limit](int cores) {
    if (cores > 0) limit = limit == 0 ? cores : std::min(limit, cores);
  };
  while (std::getline(self, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    std::filesystem::path group = line.substr(3);
    while (true) {
      std::ifstream file("/sys/fs/cgroup" + group.string() + "/cpu.max");
      std::string quota;
      std::string period;
      if (file >> quota >> period) narrow(cgroup_quota_cores(quota, period));
      if (group == group.root_path() || group.empty()) break;
      group = group.parent_path();
    }
  }
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  std::string quota;
  std::string period;
  if (v1_quota >> quota && v1_period >> period) narrow(cgroup_quota_cores(quota, period));
  return limit;
}

/// Distinct (package, core) pairs among `processors`, as `folder`, /sys/devices/system/cpu or one like it, has them. A
/// processor that it does not describe counts as a core of its own.
inline int physical_cores(const std::vector<int>& processors, const std::filesystem::path& folder) {
  std::set<std::pair<int, int>> cores;
  int undescribed = 0;
  for (const int processor : processors) {
    const auto topology = folder / ("cpu" + std::to_string(processor)) / "topology";
    std::ifstream package_file(topology / "physical_package_id");
    std::ifstream core_file(topology / "core_id");
    int package = 0;
    int core = 0;
    if (package_file >> package && core_file >> core) {
      cores.emplace(package, core);
    } else {
      ++undescribed;
    }
  }
  return static_cast<int>(cores.size()) + undescribed;
}

/// Physical cores among the processors that this process may run on; 0 where that cannot be read.
inline int allowed_physical_cores(const std::filesystem::path& folder = "/sys/devices/system/cpu") {
#ifdef __linux__
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
  }
  return physical_cores(processors, folder);
#else
  static_cast<void>(folder);
  return 0;
#endif
}

}  // namespace detail

/// Threads that a CPU context uses unless told otherwise; at least 1. Reads /proc and /sys, so call it once.
///
/// Cores are counted over all sockets and NUMA nodes that the process may run on: six sockets of one core are six
/// threads. Memory is not placed by node, so on several sockets a process bound to one, with
/// `numactl --cpunodebind=0 --membind=0`, may be faster with fewer threads; the binding is respected here.
inline int default_thread_count() {
  int cores = detail::allowed_physical_cores();
  if (cores <= 0) cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int limit = detail::cgroup_limit();
  return limit > 0 ? std::min(cores, limit) : cores;
}

TENON_NAMESPACE_END
