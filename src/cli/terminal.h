/* terminal.h - how wide the terminal is that somebody looks at. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

/* Of the terminal behind the descriptor: what it says itself, else $COLUMNS, else 100. 0: it is no
 * terminal, and gets everything. */
int terminal_columns(int descriptor);

#endif
