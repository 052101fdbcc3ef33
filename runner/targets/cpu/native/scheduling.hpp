// How the judge keeps the system's scheduler out of the times that it takes. It is the judge's code, not the worker's.
//
// A worker that keeps a pool of threads is stopped and continued with all of them at once, while the judge still occupies a core.
// Left to itself the scheduler then often wakes two of them on one core, where one spins for the other through whole time slices
// (measured on two cores: one block in six, 2 to 10 times as long), and lets a judge that is woken wait behind a spinning thread.
#pragma once

#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace kf {

// `sched_setattr` has no wrapper in every C library, and some headers lack its structure. Times in nanoseconds.
struct SchedulingAttributes {
    std::uint32_t size = sizeof(SchedulingAttributes);
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 0;
    std::uint64_t deadline = 0;
    std::uint64_t period = 0;
};

// While it lives the calling thread, once woken, takes a core at once: by real-time priority where that is permitted (root, or
// RLIMIT_RTPRIO), else by the shortest time slice, which newer kernels heed (6.12 and later) and others ignore. It sleeps nearly always.
class Urgent {
  public:
    Urgent() {
        if (syscall(SYS_sched_getattr, 0, &before_, sizeof before_, 0) != 0) return;
        SchedulingAttributes urgent;
        urgent.policy = SCHED_FIFO;
        urgent.priority = 1;
        changed_ = set(urgent);
        if (changed_ || before_.policy != SCHED_OTHER) return;
        urgent = before_;
        urgent.runtime = kShortestSlice;
        changed_ = set(urgent);
    }
    ~Urgent() {
        if (changed_) set(before_);
    }
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;

  private:
    static constexpr std::uint64_t kShortestSlice = 100'000;
    static bool set(SchedulingAttributes attributes) {
        attributes.size = sizeof attributes;
        return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
    }
    SchedulingAttributes before_;
    bool changed_ = false;
};

// Spreads the threads of a stopped process over the cores, so that each wakes on one of its own; the judge's present core comes last.
// `release` gives every thread back the cores it had, when they run: they stay where they are as long as that is best. A process with
// one thread is left alone, and so is a thread that has chosen its cores itself.
class Spread {
  public:
    explicit Spread(int pid) {
        for (const pid_t thread : threads_of(pid)) threads_.push_back(thread);
        if (threads_.size() < 2 || sched_getaffinity(0, sizeof all_, &all_) != 0) threads_.clear();
        const std::vector<int> cores = cores_but_mine_last();
        std::size_t next = 0;
        const auto stays = [&](pid_t thread) {
            cpu_set_t mask;
            if (sched_getaffinity(thread, sizeof mask, &mask) != 0 || !CPU_EQUAL(&mask, &all_)) return true;
            CPU_ZERO(&mask);
            CPU_SET(cores[next++ % cores.size()], &mask);
            return sched_setaffinity(thread, sizeof mask, &mask) != 0;
        };
        threads_.erase(std::remove_if(threads_.begin(), threads_.end(), stays), threads_.end());
    }
    void release() {
        for (const pid_t thread : threads_) sched_setaffinity(thread, sizeof all_, &all_);
        threads_.clear();
    }
    ~Spread() { release(); }
    Spread(const Spread&) = delete;
    Spread& operator=(const Spread&) = delete;

  private:
    static std::vector<pid_t> threads_of(int pid) {
        std::vector<pid_t> found;
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/task", pid);
        DIR* tasks = opendir(path);
        if (tasks == nullptr) return found;
        while (const dirent* entry = readdir(tasks)) {
            if (entry->d_name[0] != '.') found.push_back(std::atoi(entry->d_name));
        }
        closedir(tasks);
        return found;
    }
    std::vector<int> cores_but_mine_last() const {
        std::vector<int> cores;
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (CPU_ISSET(core, &all_)) cores.push_back(core);
        }
        const int mine = sched_getcpu();
        std::stable_partition(cores.begin(), cores.end(), [mine](int core) { return core != mine; });
        return cores;
    }
    cpu_set_t all_ = {};
    std::vector<pid_t> threads_;
};

}  // namespace kf
