/* fit.h: what a training run needs of memory, and whether it is there. */
#ifndef SW_RUN_FIT_H
#define SW_RUN_FIT_H

#include "run/need.h"
#include "run/train.h"

/* What a run of that assembly needs. The choice of who multiplies and what lies in memory as files are the run's. */
sw_need sw_fit_need(const sw_run *run, const sw_assembly *assembly);

/* fit_advice.c: settings with which the run would fit, found by planning with them: "key=value key=value would fit: ...". Or
 * that none do. */
void sw_fit_advise(const sw_run *run, const sw_memory_limits *limits, char *text, size_t bytes);

#endif
