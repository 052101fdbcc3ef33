"""Target `cpu`: candidates are C++ built by g++, run in a sandboxed process, and timed by the judge's own clock.

What a candidate is: hostile host code. It may do whatever it likes to its own process; the design gives it nothing to gain there.

What it can reach. One shared memory file, of which the launcher maps the control page and each set of tensors at a place of its
own, drawn from all of the address space. It is given the addresses of its call's own tensors, and may keep those of earlier calls.
The launcher, the C library, the OpenMP library and its own code, which it may read and, except for making new executable memory,
patch. The processors' caches and its own threads.

What it can't reach.
- Expected outputs, the judge's copies of the inputs, the seeds, the other side's tensors: they are other memory, and the file is
  zeroed before another worker gets it, once the last one was reaped.
- The clock: time is taken in the judge's process, before the worker may run and after it was stopped. Between calls every one of
  its threads is stopped by SIGSTOP, which it can't block, and the judge looks at each thread's state before it loads or inspects a
  slot. So nothing is done ahead, afterwards, or to the other side. Whoever claims too early to be done is stopped with unfinished
  outputs.
- The calls to come: which slots are called next is told to the launcher a part of a run at a time, the cut is secret, and behind
  each slot of a timed run stand several sets of tensors, one of which is drawn for each run. The launcher's stack, its control page
  and the other calls' places are on no stack, in no register, and in no data that C++ can get at (on x86-64; elsewhere the launcher
  shares its stack), and questions about what is mapped where are refused. Whoever writes answers for other calls than the one that
  was made writes to buffers that the judge knows to be nobody's, and is found out; whoever only reads ahead does so mostly in vain.
- Files, network, other processes, signals, tracing, timers, priorities: no such names exist in its namespaces, and the system calls
  are not on the seccomp filter's list. A forbidden call ends the process, and its name is the message. Its handlers can't be
  installed, its limits not be raised, and the judge's death is its own.
- The verdict: the process returns nothing but its tensors. Its messages are read only when it has died, cut and made plain.
- The compiler: g++ runs in a sandbox of its own that sees the system's programs and the candidate's files; messages about other
  files are left out, and the manifest can give it no options but those of a list.

What is left to it, and what the judge does about that. It sees in which placement it runs, so it may behave differently when it is
timed: outputs of timed runs are inspected, too. It may finish less than all of a run and claim to be done, if it guesses where to
say so: inspection finds elements that were never written in every slot that it looks at. For some microseconds after the stop
signal is sent a thread on another core still runs: that is charged to nobody, and far below what is resolved. It may use up memory
(bounded by an address-space limit, and the kernel is told to end it first) and, as root's process, thread numbers, until its
deadline. It shares caches and the memory bus with whatever else the machine does: that is noise, and the statistics' concern.
Hidden places can be guessed (one chance in millions a try that does not end the process). A flaw in the Linux kernel's namespaces,
seccomp or memory files would be a way out of the sandbox; so would side channels between cores, which can't write.

What is trusted: the spec's Python files (its reference runs in the judge's process, its baselines in a sandbox of their own that
candidates never see), g++, PyTorch, bubblewrap, and the state folder, where no worker can write.
"""
