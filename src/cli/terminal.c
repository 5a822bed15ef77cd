#include "cli/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_columns(int descriptor) {
    enum { USUAL = 100, MOST = 10000 };
    struct winsize window = {0};
    if (!isatty(descriptor))
        return 0;
    if (ioctl(descriptor, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
    const char *given = getenv("COLUMNS");
    long columns = given ? strtol(given, NULL, 10) : 0;
    return columns > 0 && columns <= MOST ? (int)columns : USUAL;
}
