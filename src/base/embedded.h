/* embedded.h - files of the source tree that are compiled in as text: the suites, and what a report's
 * page is made of. cmake/embed-files.cmake writes the table. */
#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

typedef struct embedded_file {
    const char *name; /* its path in the tree: "suites/systems.json" */
    const char *text;
} embedded_file;

/* The last has no name. */
extern const embedded_file EMBEDDED_FILES[];

/* Its text; NULL when there is none of that name. */
const char *embedded_find(const char *name);

#endif
