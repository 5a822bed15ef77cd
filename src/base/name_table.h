/* name_table.h - numbers by name, found without a walk over all names. */
#ifndef BASE_NAME_TABLE_H
#define BASE_NAME_TABLE_H

#include <stddef.h>

typedef struct name_entry {
    const char *name; /* NULL: empty */
    int number;
} name_entry;

/* Zero is an empty table. */
typedef struct name_table {
    name_entry *entries;
    size_t count, capacity;
} name_table;

/* The number of that name; -1 when it has none. */
int name_table_find(const name_table *table, const char *name);
/* Gives the name a number, in place of the one it had. The name is borrowed, for the table's life.
 */
void name_table_set(name_table *table, const char *name, int number);
void name_table_release(name_table *table);

#endif
