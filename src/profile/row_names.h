/* row_names.h - what tables call the rows that are no kernel, phase or range of a program; none of those is ever
 * called so. */
#ifndef PROFILE_ROW_NAMES_H
#define PROFILE_ROW_NAMES_H

/* What belongs to no launch that is known. */
#define ROW_UNATTRIBUTED "(unattributed)"
/* All phases together. */
#define ROW_ALL_PHASES "(all)"

#endif
