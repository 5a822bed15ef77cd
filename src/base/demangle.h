/* demangle.h - names of C++ functions as people write them. */
#ifndef BASE_DEMANGLE_H
#define BASE_DEMANGLE_H

/* "_ZN3foo3barEv" -> "foo::bar()". The name itself where it is not mangled, or where this machine has
 * no C++ library to ask. The caller frees it. */
char *demangle(const char *name);

#endif
