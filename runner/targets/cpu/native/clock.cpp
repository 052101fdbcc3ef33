// The judge's clock. It is loaded into the judge's process; the worker's process stands still (SIGSTOP) except inside `kf_run`.
//
// Nothing that the worker says is believed but "done", and that only ends the measurement: whoever says it too early is
// stopped with unfinished outputs. The judge sleeps while the worker runs, so that every core belongs to the worker.
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "scheduling.hpp"
#include "serve.hpp"

namespace {

enum Outcome { kDone = 0, kTimeout = 1, kDied = 2 };

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

bool dead(int pidfd) {
    pollfd event{pidfd, POLLIN, 0};
    return poll(&event, 1, 0) > 0;
}

// Waits until `*word` is `wanted`. Wakes up now and then to see whether the worker still lives.
Outcome wait_for(const std::uint32_t* word, std::uint32_t wanted, int pidfd, double deadline) {
    for (;;) {
        const std::uint32_t value = kf::acquire(word);
        if (value == wanted) return kDone;
        const double left = deadline - now();
        if (left <= 0) return kTimeout;
        const timespec slice{0, static_cast<long>(std::min(left, 0.02) * 1e9)};
        kf::futex_wait(word, value, &slice);
        if (kf::acquire(word) != wanted && dead(pidfd)) return kDied;
    }
}

int signal_process(int pidfd, int signal) { return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0)); }

// The state letter of one task (`T`: stopped), from the field after the parenthesised name; 0 when the task is gone.
char task_state(int directory, const char* task) {
    char path[300], text[512];
    std::snprintf(path, sizeof path, "%s/stat", task);
    const int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    const char* name_end = std::strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

bool all_stopped(DIR* tasks) {
    rewinddir(tasks);
    while (const dirent* entry = readdir(tasks)) {
        if (entry->d_name[0] == '.') continue;
        const char state = task_state(dirfd(tasks), entry->d_name);
        if (state != 'T' && state != 't' && state != 'Z' && state != 'X' && state != 0) return false;
    }
    return true;
}

}  // namespace

extern "C" {

// Waits up to `timeout` seconds for the worker to be ready. It is not stopped by this.
int kf_wait_ready(const kf::Control* control, int pidfd, double timeout) { return wait_for(&control->ready, 1, pidfd, now() + timeout); }

// Lets the worker carry out command `number`, and stores the seconds from before it could run to after it was told to stop.
int kf_run(kf::Control* control, int pid, int pidfd, std::uint32_t number, double timeout, double* seconds) {
    const kf::Urgent urgent;
    kf::Spread threads(pid);
    const double start = now();
    kf::release(&control->command, number);
    if (signal_process(pidfd, SIGCONT) != 0) return kDied;
    threads.release();
    // The worker left its wait when it was stopped, or leaves it now: the wait restarts, and finds the new number.
    const Outcome outcome = wait_for(&control->done, number, pidfd, start + timeout);
    signal_process(pidfd, SIGSTOP);
    *seconds = now() - start;
    return outcome;
}

int kf_stop(int pidfd) { return signal_process(pidfd, SIGSTOP); }

// Waits until every thread of the process stands still (stopped, or gone).
int kf_stand_still(int pid, int pidfd, double timeout) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task", pid);
    const double deadline = now() + timeout;
    DIR* tasks = opendir(path);
    if (tasks == nullptr) return kDied;
    Outcome outcome = kTimeout;
    do {
        if (dead(pidfd)) {
            outcome = kDied;
        } else if (all_stopped(tasks)) {
            outcome = kDone;
        } else {
            usleep(20);
        }
    } while (outcome == kTimeout && now() < deadline);
    closedir(tasks);
    return outcome;
}

// Reads through a buffer on every given core, so that its private caches and its share of the last one hold nothing else and
// nothing that has still to be written back. Returns a sum, so that the reads are not optimised away.
std::uint64_t kf_flush(const std::uint64_t* buffer, std::uint64_t words, const int* cpus, int cpu_count) {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(cpu_count));
    std::vector<std::thread> threads;
    for (int index = 0; index < cpu_count; ++index) {
        threads.emplace_back([=, &sums] {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(cpus[index], &set);
            pthread_setaffinity_np(pthread_self(), sizeof set, &set);
            std::uint64_t sum = 0;
            const std::uint64_t* part = buffer + words / std::uint64_t(cpu_count) * std::uint64_t(index);
            for (std::uint64_t word = 0; word < words / std::uint64_t(cpu_count); word += 8) sum += part[word];
            sums[static_cast<std::size_t>(index)] = sum;
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::uint64_t total = 0;
    for (const std::uint64_t sum : sums) total += sum;
    return total;
}

}  // extern "C"
