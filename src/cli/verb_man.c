/* verb_man.c - `dyno man VERB` and `dyno completion SHELL`: what is made of the tables of flags. */
#include <string.h>

#include "cli/cli.h"

static const flags_example MAN_EXAMPLES[] = {
    {"man bench", "as roff; `dyno man bench | man -l -` shows it"},
};

const flags_verb cli_man_table = {
    .name = "man",
    .positional = "VERB",
    .least_positionals = 1,
    .most_positionals = 1,
    .summary =
        "Prints a verb's manual page, made of the same table as its help. To install one: dyno "
        "man bench > /usr/local/share/man/man1/dyno-bench.1",
    .flags = NULL,
    FLAGS_EXAMPLES(MAN_EXAMPLES),
};

static const flags_example COMPLETION_EXAMPLES[] = {
    {"completion bash", "for ~/.bashrc: source <(dyno completion bash)"},
    {"completion zsh", "for a directory of $fpath, as the file _dyno"},
};

const flags_verb cli_completion_table = {
    .name = "completion",
    .positional = "bash|zsh",
    .least_positionals = 1,
    .most_positionals = 1,
    .summary = "Prints a script that completes verbs, flags, and the values of flags that have a "
               "choice, made of the tables of flags that the help is made of.",
    .flags = NULL,
    FLAGS_EXAMPLES(COMPLETION_EXAMPLES),
};

static dyno_status find_verb(const char *name, const cli_verb **out) {
    const char *names[CLI_VERB_COUNT];
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        names[i] = CLI_VERBS[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = &CLI_VERBS[i];
            return DYNO_OK;
        }
    }
    const char *nearest = text_nearest(name, names, CLI_VERB_COUNT);
    return dyno_fail(DYNO_INVALID,
                     nearest ? "there is no verb '%s'; did you mean '%s'?"
                             : "there is no verb '%s'; dyno --help lists them",
                     text_quote(name).text, nearest);
}

static dyno_status run_man(flags *given) {
    const cli_verb *verb = NULL;
    char *page = NULL;
    text own = {0};
    RETURN_IF_FAILED(find_verb(flags_positional(given, 0), &verb));
    if (verb->table) {
        flags_append_man(verb->table, dyno_version(), &own);
        cli_print(own.data);
        return DYNO_OK;
    }
    RETURN_IF_FAILED(dyno_experiment_man(verb->name, &page));
    cli_print(page);
    return DYNO_OK;
}

static dyno_status list_flags(const cli_verb *verb, text *out) {
    char *list;
    if (verb->table) {
        flags_append_list(verb->table, out);
        return DYNO_OK;
    }
    RETURN_IF_FAILED(dyno_experiment_flags(verb->name, &list));
    text_append(out, list);
    dyno_text_free(list);
    return DYNO_OK;
}

/* One line of the list, taken apart; `line` moves behind it. */
typedef struct flag_line {
    char name[64], choices[256], help[128];
    bool takes_value;
} flag_line;

static void take_field(const char **at, const char *ends, char *out, size_t size) {
    size_t length = strcspn(*at, ends), kept = length < size ? length : size - 1;
    memcpy(out, *at, kept);
    out[kept] = '\0';
    *at += length + ((*at)[length] != '\0');
}

static flag_line take_line(const char **at) {
    flag_line line;
    char takes[4];
    take_field(at, "\t\n", line.name, sizeof line.name);
    take_field(at, "\t\n", line.choices, sizeof line.choices);
    take_field(at, "\t\n", takes, sizeof takes);
    take_field(at, "\n", line.help, sizeof line.help);
    line.takes_value = takes[0] == '1';
    return line;
}

/* Choices as words of a shell. */
static void append_words(text *out, const char *choices) {
    for (; *choices; choices++)
        text_append_bytes(out, *choices == '|' ? " " : choices, 1);
}

static void append_verbs(text *out) {
    for (int i = 0; i < CLI_VERB_COUNT; i++)
        text_format(out, "%s%s", i ? " " : "", CLI_VERBS[i].name);
}

static void append_bash_verb(const char *name, const char *list, text *out) {
    text values = {0}, all = {0};
    while (*list) {
        flag_line line = take_line(&list);
        text_format(&all, " --%s", line.name);
        if (line.choices[0]) {
            text_format(&values, "    %s:--%s) words=\"", name, line.name);
            append_words(&values, line.choices);
            text_append(&values, "\" ;;\n");
        } else if (line.takes_value) {
            text_format(&values,
                        "    %s:--%s) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", name,
                        line.name);
        }
    }
    text_append(out, text_string(&values));
    text_format(out, "    %s:*) words=\"%s\" ;;\n", name, text_string(&all));
    text_release(&values);
    text_release(&all);
}

static dyno_status append_bash(text *out) {
    text_append(out, "# Made by `dyno completion bash`; source it.\n_dyno() {\n"
                     "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
                     "verb=${COMP_WORDS[1]} words\n"
                     "  if [ \"$COMP_CWORD\" = 1 ]; then words=\"");
    append_verbs(out);
    text_append(out, " --help --version\"\n  else case $verb:$before in\n");
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        text list = {0};
        RETURN_IF_FAILED(list_flags(&CLI_VERBS[i], &list));
        append_bash_verb(CLI_VERBS[i].name, text_string(&list), out);
        text_release(&list);
    }
    text_append(out, "  esac; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                     "  [ \"${current#-}\" != \"$current\" ] || [ \"$COMP_CWORD\" = 1 ] || "
                     "COMPREPLY+=($(compgen -f -- \"$current\"))\n}\n"
                     "complete -o filenames -F _dyno dyno\n");
    return DYNO_OK;
}

/* In single quotes, without what _arguments gives a meaning. */
static void append_zsh_help(text *out, const char *help) {
    for (; *help; help++)
        text_append_bytes(out, strchr("'[]:\\", *help) ? " " : help, 1);
}

static void append_zsh_verb(const char *name, const char *list, text *out) {
    text_format(out, "    %s) _arguments", name);
    while (*list) {
        flag_line line = take_line(&list);
        text_format(out, " \\\n      '--%s[", line.name);
        append_zsh_help(out, line.help);
        text_append(out, "]");
        if (line.choices[0]) {
            text_format(out, ":%s:(", line.name);
            append_words(out, line.choices);
            text_append(out, ")");
        } else if (line.takes_value) {
            text_format(out, ":%s:_files", line.name);
        }
        text_append(out, "'");
    }
    text_append(out, " \\\n      '*:file:_files' ;;\n");
}

static dyno_status append_zsh(text *out) {
    text_append(
        out, "#compdef dyno\n# Made by `dyno completion zsh`.\n_dyno() {\n  local verb=$words[2]\n"
             "  if (( CURRENT == 2 )); then\n    compadd ");
    append_verbs(out);
    text_append(out, "\n    return\n  fi\n  shift words\n  (( CURRENT-- ))\n  case $verb in\n");
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        text list = {0};
        RETURN_IF_FAILED(list_flags(&CLI_VERBS[i], &list));
        append_zsh_verb(CLI_VERBS[i].name, text_string(&list), out);
        text_release(&list);
    }
    text_append(out, "  esac\n}\n_dyno \"$@\"\n");
    return DYNO_OK;
}

static dyno_status run_completion(flags *given) {
    const char *shell = flags_positional(given, 0);
    text script = {0};
    dyno_status status = strcmp(shell, "bash") == 0 ? append_bash(&script)
                         : strcmp(shell, "zsh") == 0
                             ? append_zsh(&script)
                             : dyno_fail(DYNO_INVALID,
                                         "there is no completion for '%s'; "
                                         "there is one for bash and for zsh",
                                         text_quote(shell).text);
    if (status == DYNO_OK)
        cli_print(script.data);
    else
        text_release(&script);
    return status;
}

int cli_man(int argc, char **argv) { return cli_run(&cli_man_table, argc, argv, run_man); }

int cli_completion(int argc, char **argv) {
    return cli_run(&cli_completion_table, argc, argv, run_completion);
}
