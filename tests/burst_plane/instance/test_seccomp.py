from __future__ import annotations

import pytest

from burst_plane.instance.seccomp import profile

# What leaves a container, or looks into others: none of these without its capability.
FORBIDDEN = """
add_key bpf delete_module finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter
io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mount
mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree
perf_event_open pivot_root process_vm_readv process_vm_writev ptrace quotactl reboot request_key setns
settimeofday swapoff swapon sysfs umount umount2 unshare userfaultfd vhangup
""".split()  # noqa: SIM905


def allowed(capabilities: tuple[str, ...] = ()) -> set[str]:
    rules = profile("x86_64", capabilities)["syscalls"]
    return {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}


def test_what_is_not_listed_is_refused() -> None:
    made = profile("x86_64", ())
    assert (made["defaultAction"], made["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert made["architectures"] == ["SCMP_ARCH_X86_64"]
    assert not allowed() & {*FORBIDDEN, "chroot", "mknod"}
    assert not allowed(("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_BPF")) & set(FORBIDDEN)


def test_what_a_capability_adds() -> None:
    assert "chroot" in allowed(("CAP_SYS_CHROOT",))
    assert "mknod" in allowed(("CAP_MKNOD",))


def test_a_new_process_gets_no_new_namespace() -> None:
    (clone,) = (rule for rule in profile("x86_64", ())["syscalls"] if rule["names"] == ["clone"])
    (argument,) = clone["args"]
    assert (argument["op"], argument["valueTwo"]) == ("SCMP_CMP_MASKED_EQ", 0)
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert argument["value"] & flag
    (clone3,) = (rule for rule in profile("x86_64", ())["syscalls"] if rule["names"] == ["clone3"])
    assert (clone3["action"], clone3["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_an_unknown_machine_has_none() -> None:
    with pytest.raises(KeyError):
        profile("sparc", ())
