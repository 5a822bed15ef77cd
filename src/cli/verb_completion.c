/* verb_completion.c - `dyno completion SHELL`: a script that completes verbs, flags and values.
 *
 * All of it is made of the tables of flags, as flags_append_list gives them. A value that is a path is
 * completed by file names, and no other is; one that is neither a path nor has words is the user's to
 * type. */
#include <string.h>

#include "cli/cli.h"

static const flags_example EXAMPLES[] = {
    {"completion bash", "for ~/.bashrc: source <(dyno completion bash)"},
    {"completion zsh", "for a directory of $fpath, as the file _dyno"},
};

const flags_verb cli_completion_table = {
    .name = "completion",
    .positional = "bash|zsh",
    .least_positionals = 1,
    .most_positionals = 1,
    .positional_suggestions = "bash|zsh",
    .summary =
        "Prints a script that completes verbs, flags, the values of flags that have a choice, "
        "also behind the commas of a list, and file names where a value is a path. It is made of "
        "the tables of flags that the help is made of.",
    .flags = NULL,
    FLAGS_EXAMPLES(EXAMPLES),
};

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

/* A part of the list. */
typedef struct slice {
    const char *at;
    int length;
} slice;

/* One line of it, taken apart. */
typedef struct flag_line {
    slice name, words, help, kind; /* a positional has no name */
    bool takes_value;
} flag_line;

static slice take_field(const char **at) {
    slice field = {*at, (int)strcspn(*at, "\t\n")};
    *at += field.length + ((*at)[field.length] != '\0');
    return field;
}

/* `at` moves behind the line. */
static flag_line take_line(const char **at) {
    flag_line line = {.name = take_field(at), .words = take_field(at)};
    line.takes_value = take_field(at).at[0] == '1';
    line.help = take_field(at);
    line.kind = take_field(at);
    return line;
}

static bool is_of_kind(const flag_line *line, const char *kind) {
    return line->kind.length == (int)strlen(kind) &&
           memcmp(line->kind.at, kind, (size_t)line->kind.length) == 0;
}

/* "a|b" as words of a shell. */
static void append_words(text *out, slice words) {
    for (int i = 0; i < words.length; i++)
        text_append_bytes(out, words.at[i] == '|' ? " " : words.at + i, 1);
}

static void append_verbs(text *out) {
    for (int i = 0; i < CLI_VERB_COUNT; i++)
        text_format(out, "%s%s", i ? " " : "", CLI_VERBS[i].name);
}

static dyno_status append_all(void (*append)(const char *verb, const char *list, text *out),
                              text *out) {
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        text list = {0};
        RETURN_IF_FAILED(list_flags(&CLI_VERBS[i], &list));
        append(CLI_VERBS[i].name, text_string(&list), out);
        text_release(&list);
    }
    return DYNO_OK;
}

/* ---- bash ---- */

/* What readline calls. It makes words of "--flag=value" at the "=", and of "cuda:0" at the ":". */
static const char BASH_BEGIN[] =
    "# Made by `dyno completion bash`; source it.\n"
    "_dyno() {\n"
    "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
    "verb=${COMP_WORDS[1]}\n"
    "  local words= kind= flags= prefix= word\n"
    "  COMPREPLY=()\n"
    "  if [ \"$current\" = : ] || [ \"$before\" = : ]; then return; fi\n"
    "  if [ \"$current\" = = ]; then current=\n"
    "  elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "  if [ \"$COMP_CWORD\" = 1 ]; then words=\"";

static const char BASH_END[] =
    "  esac; fi\n"
    "  if [ -n \"$flags\" ]; then case $current in\n"
    "    -*) words=$flags kind= ;;\n"
    "    '') [ -n \"$words$kind\" ] || words=$flags ;;\n"
    "  esac; fi\n"
    "  case $kind in\n"
    "    list) [ \"${current#*,}\" = \"$current\" ] || prefix=${current%,*},\n"
    "      for word in $words; do case ,$prefix in\n"
    "        *,\"$word\",*) ;; # it is in the list\n"
    "        *) case $prefix$word in \"$current\"*) COMPREPLY+=(\"$prefix$word\") ;; esac ;;\n"
    "      esac; done; return ;;\n"
    "    file) compopt -o filenames 2> /dev/null\n"
    "      mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
    "    directory) compopt -o filenames 2> /dev/null\n"
    "      mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
    "  esac\n"
    "  for word in $words; do\n"
    "    case $word in \"$current\"*) COMPREPLY+=(\"$word\") ;; esac\n"
    "  done\n"
    "}\n"
    "complete -F _dyno dyno\n";

static void append_bash_value(const char *verb, const flag_line *line, text *out) {
    text_format(out, "    %s:--%.*s) ", verb, line->name.length, line->name.at);
    if (!line->words.length && (!line->kind.length || is_of_kind(line, "list"))) {
        text_append(out, "return ;;\n"); /* a number, or a text of the user's */
        return;
    }
    text_format(out, "kind=%.*s words=\"", line->kind.length, line->kind.at);
    append_words(out, line->words);
    text_append(out, "\" ;;\n");
}

static void append_bash_verb(const char *verb, const char *list, text *out) {
    text all = {0};
    flag_line positional = {0};
    while (*list) {
        flag_line line = take_line(&list);
        if (!line.name.length) {
            positional = line;
            continue;
        }
        text_format(&all, " --%.*s", line.name.length, line.name.at);
        if (line.takes_value)
            append_bash_value(verb, &line, out);
    }
    text_format(out, "    %s:*) kind=%.*s words=\"", verb, positional.kind.length,
                positional.kind.length ? positional.kind.at : "");
    append_words(out, positional.words);
    text_format(out, "\" flags=\"%s\" ;;\n", text_string(&all));
    text_release(&all);
}

static dyno_status append_bash(text *out) {
    text_append(out, BASH_BEGIN);
    append_verbs(out);
    text_append(out, " --help --version\"\n  else case $verb:$before in\n");
    RETURN_IF_FAILED(append_all(append_bash_verb, out));
    text_append(out, BASH_END);
    return DYNO_OK;
}

/* ---- zsh ---- */

/* In single quotes, without what _arguments gives a meaning. */
static void append_zsh_help(text *out, slice help) {
    for (int i = 0; i < help.length; i++)
        text_append_bytes(out, strchr("'[]:\\", help.at[i]) ? " " : help.at + i, 1);
}

/* A colon would end the action. */
static void append_zsh_words(text *out, slice words) {
    for (int i = 0; i < words.length; i++) {
        bool is_colon = words.at[i] == ':';
        text_append_bytes(out,
                          words.at[i] == '|' ? " "
                          : is_colon         ? "\\:"
                                             : words.at + i,
                          is_colon ? 2 : 1);
    }
}

/* How _arguments completes the value. */
static void append_zsh_action(const flag_line *line, text *out) {
    bool is_list = is_of_kind(line, "list"), has_words = line->words.length > 0;
    const char *paths = is_of_kind(line, "file")        ? "_files"
                        : is_of_kind(line, "directory") ? "_files -/"
                                                        : NULL;
    if (has_words && paths) {
        text_append(out, "{ compadd - ");
        append_zsh_words(out, line->words);
        text_format(out, "; %s }", paths);
    } else if (has_words) {
        text_append(out, is_list ? " _sequence compadd - " : "(");
        append_zsh_words(out, line->words);
        text_append(out, is_list ? "" : ")");
    } else {
        text_append(out, paths ? paths : " ");
    }
}

static void append_zsh_verb(const char *verb, const char *list, text *out) {
    text positional = {0};
    text_format(out, "    %s) _arguments", verb);
    while (*list) {
        flag_line line = take_line(&list);
        if (!line.name.length) {
            text_append(&positional, " \\\n      '*: :");
            append_zsh_action(&line, &positional);
            text_append(&positional, "'");
            continue;
        }
        text_format(out, " \\\n      '--%.*s%s[", line.name.length, line.name.at,
                    line.takes_value ? "=" : "");
        append_zsh_help(out, line.help);
        text_append(out, "]");
        if (line.takes_value) {
            text_format(out, ":%.*s:", line.name.length, line.name.at);
            append_zsh_action(&line, out);
        }
        text_append(out, "'");
    }
    text_format(out, "%s ;;\n", text_string(&positional));
    text_release(&positional);
}

static dyno_status append_zsh(text *out) {
    text_append(
        out, "#compdef dyno\n# Made by `dyno completion zsh`.\n_dyno() {\n  local verb=$words[2]\n"
             "  if (( CURRENT == 2 )); then\n    compadd ");
    append_verbs(out);
    text_append(out, "\n    return\n  fi\n  shift words\n  (( CURRENT-- ))\n  case $verb in\n");
    RETURN_IF_FAILED(append_all(append_zsh_verb, out));
    text_append(out, "  esac\n}\n_dyno \"$@\"\n");
    return DYNO_OK;
}

/* ---- the verb ---- */

static dyno_status run(flags *given) {
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

int cli_completion(int argc, char **argv) {
    return cli_run(&cli_completion_table, argc, argv, run);
}
