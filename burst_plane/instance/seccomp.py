"""The seccomp profile of emergency instances, for one architecture.

The list is what containerd, Docker and Podman allow by default to a container without capabilities (compared
with containers-common 0.50, seccomp.json, and moby, profiles/seccomp/default.json),
less a few calls that a function has no use for: io_uring, ptrace, System V's oldest. The runtime compiles the
profile at each start, and one architecture instead of three saves 12 to 25 ms: so a 32-bit program is ended.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["ARCHITECTURES", "profile"]

# platform.machine() -> libseccomp's name.
ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}

_ALLOWED = """
_llseek _newselect accept accept4 access alarm arch_prctl bind brk cacheflush cachestat capget capset
chdir chmod chown chown32 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir
fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock
fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area
getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups
getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid
getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday
getuid getuid32 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel
io_destroy io_getevents io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr
llistxattr lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create
mincore mkdir mkdirat mlock mlock2 mlockall mmap mmap2 mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap msgctl msgget
msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64
preadv preadv2 prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages
removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop
semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list
set_thread_area set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid
setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr shmat shmctl shmdt
shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketcall socketpair splice stat
stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee
tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime
timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times
tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat utimensat_time64 utimes
vfork vmsplice wait4 waitid waitpid write writev
""".split()  # noqa: SIM905  (a column of 350 lines reads no better)

_OF_CAPABILITY = {
    "CAP_SYS_CHROOT": ("chroot",),
    "CAP_MKNOD": ("mknod", "mknodat"),
    "CAP_SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy"),
}
_EPERM, _ENOSYS = 1, 38
_AF_VSOCK = 40  # reaches the hypervisor's host
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of sched.h.
_NEW_NAMESPACES = 0x7E020000
# PER_LINUX, PER_LINUX32, UNAME26 with each, and the query: sys/personality.h.
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)


def profile(machine: str, capabilities: Collection[str]) -> dict[str, Any]:
    """The `linux.seccomp` of an OCI spec. Raise KeyError for a machine that is not in ARCHITECTURES."""
    extra = [name for capability in capabilities for name in _OF_CAPABILITY.get(capability, ())]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _EPERM,
        "architectures": [ARCHITECTURES[machine]],
        "syscalls": [
            {"names": [*_ALLOWED, *extra], "action": "SCMP_ACT_ALLOW"},
            _allow_if("clone", 0, _NEW_NAMESPACES, "SCMP_CMP_MASKED_EQ"),
            _allow_if("socket", 0, _AF_VSOCK, "SCMP_CMP_NE"),
            *(_allow_if("personality", 0, value, "SCMP_CMP_EQ") for value in _PERSONALITIES),
            # Its flags are in memory, which a filter cannot read: C libraries then try clone.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
        ],
    }


def _allow_if(name: str, index: int, value: int, comparison: str) -> dict[str, Any]:
    # Of a masked comparison `value` is the mask, and `valueTwo` (0) what must be left.
    argument = {"index": index, "value": value, "valueTwo": 0, "op": comparison}
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}
