// Two stacks for one thread, so that a candidate's code finds nothing of the launcher's by looking around on its own.
//
// The launcher runs on a stack at a random place, whose address nothing keeps but a register that C++ can't read (the base of the
// segment GS on x86-64). `enter` calls on another stack, which holds nothing above the call, with every other register cleared.
#pragma once

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "serve.hpp"

namespace kf {

constexpr std::size_t kLauncherStack = 1 << 20;
constexpr std::size_t kCandidateStack = 64 << 20;
constexpr std::size_t kMaxArguments = 1024;

// What the launcher has to find again after a call: the words at the base of GS.
struct Hidden {
    std::uint64_t launcher_stack;
    Control* control;
};

}  // namespace kf

#if defined(__x86_64__)

// kf_enter(function, argument, top of the other stack): calls function(argument) there. kf_leave(function, argument, top) never returns.
asm(R"(
.text
.globl kf_enter
.type kf_enter, @function
kf_enter:
    endbr64
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %gs:0
    movq %rdx, %rsp
    movq %rdi, %rax
    movq %rsi, %rdi
    xorl %ebx, %ebx
    xorl %ebp, %ebp
    xorl %ecx, %ecx
    xorl %edx, %edx
    xorl %esi, %esi
    xorl %r8d, %r8d
    xorl %r9d, %r9d
    xorl %r10d, %r10d
    xorl %r11d, %r11d
    xorl %r12d, %r12d
    xorl %r13d, %r13d
    xorl %r14d, %r14d
    xorl %r15d, %r15d
    call *%rax
    movq %gs:0, %rsp
    cld
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size kf_enter, .-kf_enter
.globl kf_leave
.type kf_leave, @function
kf_leave:
    endbr64
    movq %rdx, %rsp
    movq %rdi, %rax
    movq %rsi, %rdi
    xorl %ebp, %ebp
    call *%rax
    ud2
.size kf_leave, .-kf_leave
.section .note.GNU-stack,"",@progbits
.text
)");

namespace kf {

inline void hide(Hidden* hidden) {
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, hidden) != 0) fail("arch_prctl");
}
inline Control* hidden_control() {
    Control* control;
    asm volatile("movq %%gs:8, %0" : "=r"(control));
    return control;
}
inline void set_hidden_control(Control* control) { asm volatile("movq %0, %%gs:8" : : "r"(control) : "memory"); }

}  // namespace kf

extern "C" {
void kf_enter(void (*function)(std::uint64_t*), std::uint64_t* argument, void* top);
[[noreturn]] void kf_leave(void (*function)(void*), void* argument, void* top);
}

#else

// Elsewhere the launcher and the candidate share a stack: what is hidden on x86-64 can be found there.
namespace kf {

inline Hidden* g_hidden = nullptr;
inline void hide(Hidden* hidden) { g_hidden = hidden; }
inline Control* hidden_control() { return g_hidden->control; }
inline void set_hidden_control(Control* control) { g_hidden->control = control; }

}  // namespace kf

inline void kf_enter(void (*function)(std::uint64_t*), std::uint64_t* argument, void*) { function(argument); }
[[noreturn]] inline void kf_leave(void (*function)(void*), void* argument, void*) {
    function(argument);
    __builtin_trap();
}

#endif
