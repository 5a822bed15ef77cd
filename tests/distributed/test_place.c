/* Which rank a process is, as the environments of dyno, mpirun and srun say. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "distributed/world.h"
#include "support/expect.h"

static const char *const VARIABLES[] = {"DYNO_RANK",
                                        "DYNO_RANKS",
                                        "DYNO_RANKS_FILE",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_SIZE",
                                        "PMI_RANK",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_ID"};

static int forget_all(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++)
        unsetenv(VARIABLES[i]);
    return 0;
}

static void expect_place(world_starter starter, int rank, int count, int host_rank) {
    world_place place;
    expect_ok(world_find_place(&place));
    assert_int_equal(place.starter, starter);
    assert_int_equal(place.rank, rank);
    assert_int_equal(place.count, count);
    assert_int_equal(place.host_rank, host_rank);
}

static void a_process_that_nobody_started_is_alone(void **state) {
    (void)state;
    expect_place(WORLD_ALONE, 0, 1, 0);
}

static void a_rank_of_open_mpi_is_recognised(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    expect_place(WORLD_MPI, 5, 8, 1);
}

static void a_rank_of_mpich_is_recognised(void **state) {
    (void)state;
    setenv("PMI_SIZE", "4", 1);
    setenv("PMI_RANK", "3", 1);
    expect_place(WORLD_MPI, 3, 4, -1);
    setenv("MPI_LOCALRANKID", "2", 1);
    expect_place(WORLD_MPI, 3, 4, 2);
}

static void a_task_of_srun_is_recognised(void **state) {
    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "16", 1);
    setenv("SLURM_PROCID", "9", 1);
    setenv("SLURM_LOCALID", "1", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    expect_place(WORLD_MPI, 9, 16, 1);
}

static void the_script_of_sbatch_is_no_rank(void **state) {
    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "16", 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_ID", "4294967291", 1);
    expect_place(WORLD_ALONE, 0, 1, 0);
}

static void one_task_of_srun_or_mpirun_is_a_program_like_any_other(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    expect_place(WORLD_ALONE, 0, 1, 0);
}

static void ranks_of_dyno_inside_a_job_of_mpirun_are_those_of_dyno(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    setenv("DYNO_RANKS", "3", 1);
    setenv("DYNO_RANK", "2", 1);
    expect_place(WORLD_DYNO, 2, 3, 2);
}

static void expect_refused(const char *part) {
    world_place place;
    assert_int_equal(world_find_place(&place), DYNO_INVALID);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static void an_environment_that_contradicts_itself_is_refused(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    expect_refused("a rank is below the number of ranks");
    setenv("OMPI_COMM_WORLD_RANK", "two", 1);
    expect_refused("OMPI_COMM_WORLD_RANK is 'two', which is no number");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "99999999999", 1);
    expect_refused("OMPI_COMM_WORLD_SIZE is '99999999999'");
    setenv("OMPI_COMM_WORLD_SIZE", "-4", 1);
    expect_refused("no number from 0 to 1024");
}

static void a_rank_without_the_memory_of_its_job_is_refused(void **state) {
    (void)state;
    world *w;
    setenv("DYNO_RANKS", "2", 1);
    setenv("DYNO_RANK", "1", 1);
    assert_int_equal(world_open(NULL, &w), DYNO_INVALID);
    assert_null(w);
    assert_non_null(strstr(dyno_error_message(), "not where their memory is"));
    setenv("DYNO_RANKS_FILE", "123", 1);
    assert_int_equal(world_open(NULL, &w), DYNO_IO);
    char path[32];
    FILE *other = tmpfile(); /* not the memory of ranks */
    assert_non_null(other);
    snprintf(path, sizeof path, "%d", dup(fileno(other)));
    setenv("DYNO_RANKS_FILE", path, 1);
    assert_int_equal(world_open(NULL, &w), DYNO_CORRUPT);
    fclose(other);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, forget_all, forget_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_process_that_nobody_started_is_alone),
        CASE(a_rank_of_open_mpi_is_recognised),
        CASE(a_rank_of_mpich_is_recognised),
        CASE(a_task_of_srun_is_recognised),
        CASE(the_script_of_sbatch_is_no_rank),
        CASE(one_task_of_srun_or_mpirun_is_a_program_like_any_other),
        CASE(ranks_of_dyno_inside_a_job_of_mpirun_are_those_of_dyno),
        CASE(an_environment_that_contradicts_itself_is_refused),
        CASE(a_rank_without_the_memory_of_its_job_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
