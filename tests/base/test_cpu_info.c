/* test_cpu_info.c - what the system tells of a CPU is read from files made up here, of both
 * architectures. */
#define _GNU_SOURCE
#include "base/cpu_info.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/expect.h"
#include "support/scratch.h"

static scratch machine_with(const char *cpuinfo) {
    static const char *const directories[] = {"proc",
                                              "sys",
                                              "sys/devices",
                                              "sys/devices/system",
                                              "sys/devices/system/cpu",
                                              "sys/devices/system/cpu/cpu0",
                                              "sys/devices/system/cpu/cpu0/cache"};
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mkdir(scratch_join(&made, directories[i]).text, 0777), 0);
    scratch_write(&made, "proc/cpuinfo", cpuinfo, strlen(cpuinfo));
    return made;
}

static void add_cache(const scratch *made, int index, const char *level, const char *type,
                      const char *size) {
    const char *const files[][2] = {{"level", level}, {"type", type}, {"size", size}};
    char name[128];
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu0/cache/index%d", index);
    assert_int_equal(mkdir(scratch_join(made, name).text, 0777), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu0/cache/index%d/%s", index,
                 files[i][0]);
        scratch_write(made, name, files[i][1], strlen(files[i][1]));
    }
}

static void an_x86_is_told_by_its_model_name_flags_and_cores(void **state) {
    (void)state;
    scratch made = machine_with("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"
                                "physical id\t: 0\ncore id\t: 0\n"
                                "flags\t\t: fpu avx avx2 fma xavx512f avx512fx\n\n"
                                "processor\t: 1\nphysical id\t: 0\ncore id\t: 0\n");
    add_cache(&made, 0, "1\n", "Data\n", "48K\n");
    add_cache(&made, 1, "1\n", "Instruction\n", "32K\n");
    add_cache(&made, 2, "2\n", "Unified\n", "2048K\n");
    add_cache(&made, 3, "3\n", "Unified\n", "32M\n");
    cpu_info cpu = cpu_info_read(made.path);
    assert_string_equal(cpu.model, "Some CPU @ 2 GHz");
    assert_string_equal(cpu.flags, "avx avx2 fma");
    assert_int_equal(cpu.physical_cores, 1); /* of two threads */
    assert_int_equal(cpu.l1_data_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 2 << 20);
    assert_int_equal(cpu.l3_bytes, 32 << 20);
    scratch_remove(&made);
}

static void an_arm_core_is_told_by_its_maker_part_and_features(void **state) {
    (void)state;
    scratch made = machine_with("processor\t: 0\nFeatures\t: fp asimd sve bf16\n"
                                "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n"
                                "processor\t: 1\nFeatures\t: fp asimd sve bf16\n"
                                "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
    cpu_info cpu = cpu_info_read(made.path);
    assert_string_equal(cpu.model, "Arm Neoverse V1");
    assert_string_equal(cpu.flags, "asimd bf16 sve");
    assert_int_equal(cpu.physical_cores, 2);
    assert_int_equal(cpu.l2_bytes, 0);
    scratch_remove(&made);
}

static void an_unknown_arm_core_is_told_by_its_numbers(void **state) {
    (void)state;
    scratch made = machine_with("processor\t: 0\nCPU implementer\t: 0xc0\nCPU part\t: 0xac3\n");
    assert_string_equal(cpu_info_read(made.path).model, "aarch64, maker 0xc0, part 0xac3");
    scratch_remove(&made);
}

static void a_system_that_tells_nothing_leaves_all_empty(void **state) {
    (void)state;
    scratch made = scratch_create();
    cpu_info cpu = cpu_info_read(made.path);
    assert_string_equal(cpu.model, "");
    assert_int_equal(cpu.physical_cores, 0);
    assert_int_equal(cpu.l1_data_bytes, 0);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_x86_is_told_by_its_model_name_flags_and_cores),
        cmocka_unit_test(an_arm_core_is_told_by_its_maker_part_and_features),
        cmocka_unit_test(an_unknown_arm_core_is_told_by_its_numbers),
        cmocka_unit_test(a_system_that_tells_nothing_leaves_all_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
