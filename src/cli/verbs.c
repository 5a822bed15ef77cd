/* verbs.c - the verbs of dyno, by the question they answer. */
#include "cli/cli.h"

const cli_verb CLI_VERBS[CLI_VERB_COUNT] = {
    {"doctor", "what this machine has, can do at best, and lacks", cli_experiment, NULL,
     "What is there?"},
    {"list", "models, ops, kernels, targets and suites that dyno knows", cli_list, &cli_list_table,
     NULL},
    {"plan", "memory, FLOPs and launches of a step, without running it", cli_planning_experiment,
     NULL, "What does a step take, before it is run?"},
    {"memory", "where every byte of a step goes, launch by launch", cli_planning_experiment, NULL,
     NULL},
    {"scale", "memory, communication and time of steps on many ranks, on paper",
     cli_planning_experiment, NULL, NULL},
    {"bench", "time forward, backward and whole training steps over a sweep", cli_long_experiment,
     NULL, "How long does it take?"},
    {"profile", "where the time of a step goes: kernels, scopes, what to speed up next",
     cli_long_experiment, NULL, NULL},
    {"attention", "time attention alone, forward and backward, over lengths and head sizes",
     cli_long_experiment, NULL, NULL},
    {"allreduce", "time collectives alone, over sizes, ranks and transports", cli_long_experiment,
     NULL, NULL},
    {"precision", "what 16 bits do to sums, and which type everything has", cli_experiment, NULL,
     NULL},
    {"suite", "run a whole study, in parts, within a budget of time", cli_suite, &cli_suite_table,
     NULL},
    {"show", "print what a run recorded, or follow one", cli_show, &cli_show_table,
     "What came out, and did it change?"},
    {"report", "one page of everything that was measured: tables, plots, findings", cli_report,
     &cli_report_table, NULL},
    {"compare", "whether two runs differ: faster, slower, the same, undecided", cli_compare,
     &cli_compare_table, NULL},
    {"init", "draw a model's weights and write a Hugging Face directory", cli_init, &cli_init_table,
     "How is a model trained?"},
    {"step", "run training steps of a Hugging Face model and write what they compute", cli_step,
     &cli_step_table, NULL},
    {"completion", "what a shell needs to complete dyno's verbs and flags", cli_completion,
     &cli_completion_table, "How is dyno used?"},
    {"man", "manual pages, of dyno and of each verb", cli_man, &cli_man_table, NULL},
};

const char *cli_verb_name(int index) {
    return index >= 0 && index < CLI_VERB_COUNT ? CLI_VERBS[index].name : NULL;
}
