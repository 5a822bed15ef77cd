"""Runs scripts/install-deps on pretended machines: a PATH that holds only stand-ins for dpkg-query,
apt-get, dpkg, ldconfig, id and sudo, and the few tools that the script itself uses."""
import os
import shutil
import tempfile

from cases import run_all, run_script, write_file

TOOLS = ["bash", "awk", "sed", "grep", "env"]
SAY_INSTALLED = """#!/bin/bash
# Stands in for `dpkg-query -W -f FORMAT PACKAGE...`.
shift 3
for package; do
    [[ " $ABSENT " == *" $package "* ]] || echo "installed $package"
done
"""


def install(group, absent="", root=True, with_apt="exit 0", with_sudo=None):
    """Returns the script's result and the lines that apt-get was called with."""
    with tempfile.TemporaryDirectory() as folder:
        programs = os.path.join(folder, "bin")
        calls = os.path.join(folder, "calls")
        os.makedirs(programs)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(programs, tool))

        def stand_in(name, body):
            write_file(os.path.join(programs, name), body, mode=0o755)

        stand_in("ldconfig", "#!/bin/bash\n")
        stand_in("id", f"#!/bin/bash\necho {0 if root else 1000}\n")
        if with_apt is not None:
            stand_in("dpkg-query", SAY_INSTALLED)
            stand_in("apt-get", f'#!/bin/bash\necho "$*" >> {calls}\n{with_apt}\n')
            stand_in("dpkg", '#!/bin/bash\n[[ $1 == --print-foreign-architectures ]] || '
                     f'echo "dpkg $*" >> {calls}\n')
        if with_sudo is not None:
            stand_in("sudo", f"#!/bin/bash\n{with_sudo}\n")
        result = run_script("install-deps", group, env={"PATH": programs, "ABSENT": absent})
        try:
            with open(calls, encoding="utf-8") as file:
                return result, file.read().splitlines()
        except FileNotFoundError:
            return result, []


def nothing_is_said_or_done_when_all_is_there():
    for group in ("build", "mpi", "test", "dev", "aarch64"):
        result, calls = install(group)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), result
        assert calls == [], calls


def missing_package_is_named_with_its_reason_and_installed():
    result, calls = install("build", absent="libjansson-dev libdnnl2")
    assert result.returncode == 0, result
    assert "libjansson-dev       reads and writes JSON" in result.stdout, result
    assert "libdnnl2" in result.stdout and "cmake" not in result.stdout, result
    assert len(calls) == 2 and calls[0].startswith("update"), calls
    assert calls[1].endswith("--no-install-recommends libjansson-dev libdnnl2"), calls


def libraries_that_read_traces_are_installed_with_the_build():
    result, calls = install("build", absent="libsqlite3-0 zlib1g")
    assert result.returncode == 0, result
    assert "exports of Nsight Systems" in result.stdout and "compressed traces" in result.stdout, result
    assert calls[1].endswith("--no-install-recommends libsqlite3-0 zlib1g"), calls


def each_group_asks_only_for_what_it_takes():
    absent = "cmake libopenmpi-dev libcmocka-dev g++ clang-format"
    tests = "cmake libcmocka-dev g++"
    for group, packages in (("build", "cmake"), ("mpi", "cmake libopenmpi-dev"), ("test", tests),
                            ("dev", f"{tests} clang-format")):
        result, calls = install(group, absent=absent)
        assert result.returncode == 0 and calls[1].endswith(f"recommends {packages}"), calls


def packages_of_another_architecture_are_made_known_first_and_forgotten_on_failure():
    result, calls = install("aarch64", absent="libjansson-dev:arm64")
    assert result.returncode == 0, result
    assert calls[0] == "dpkg --add-architecture arm64", calls
    assert calls[2].endswith("--no-install-recommends libjansson-dev:arm64"), calls
    assert len(calls) == 3, calls
    result, calls = install("aarch64", absent="libjansson-dev:arm64", with_apt="exit 100")
    assert result.returncode == 1 and "libjansson-dev:arm64" in result.stderr, result
    assert calls[-1] == "dpkg --remove-architecture arm64", calls
    _, calls = install("aarch64", absent="qemu-user")
    assert not any(call.startswith("dpkg") for call in calls), calls


def failed_installation_names_the_packages_and_the_network():
    result, _ = install("build", absent="libdnnl2", with_apt="exit 100")
    assert result.returncode == 1, result
    assert "could not install: libdnnl2" in result.stderr and "network" in result.stderr, result


def outdated_package_lists_do_not_stop_an_installation():
    result, calls = install("build", absent="libdnnl2", with_apt="[[ $1 != update ]]")
    assert result.returncode == 0 and len(calls) == 2, result


def user_with_sudo_installs_through_it():
    result, calls = install("build", absent="libdnnl2", root=False,
                            with_sudo='[[ $1 == -n ]] && exit 0; "$@"')
    assert result.returncode == 0 and len(calls) == 2, result


def user_without_root_or_sudo_is_told_the_command():
    for sudo in (None, "exit 1"):
        result, calls = install("build", absent="libdnnl2", root=False, with_sudo=sudo)
        assert result.returncode == 1 and calls == [], result
        assert "apt-get install libdnnl2" in result.stderr, result


def other_system_is_told_what_is_needed():
    result, _ = install("build", with_apt=None)
    assert result.returncode == 1, result
    assert "libjansson-dev" in result.stderr and "no apt-get" in result.stderr, result


def unknown_group_is_a_usage_error():
    result, calls = install("everything")
    assert result.returncode == 2 and "usage" in result.stderr and calls == [], result


run_all(nothing_is_said_or_done_when_all_is_there,
        missing_package_is_named_with_its_reason_and_installed,
        libraries_that_read_traces_are_installed_with_the_build,
        each_group_asks_only_for_what_it_takes,
        packages_of_another_architecture_are_made_known_first_and_forgotten_on_failure,
        failed_installation_names_the_packages_and_the_network,
        outdated_package_lists_do_not_stop_an_installation, user_with_sudo_installs_through_it,
        user_without_root_or_sudo_is_told_the_command, other_system_is_told_what_is_needed,
        unknown_group_is_a_usage_error)
