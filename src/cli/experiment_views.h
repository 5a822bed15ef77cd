/* experiment_views.h - the records of experiments that `dyno show` does not read, as tables. */
#ifndef CLI_EXPERIMENT_VIEWS_H
#define CLI_EXPERIMENT_VIEWS_H

#include "report/view.h"

void view_render_doctor(const results *run, view_options options, text *out);
void view_render_precision(const results *run, view_options options, text *out);

#endif
