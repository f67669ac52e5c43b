/* progress.h: what a training run tells while it runs: declared with the public face, as programs listen too. */
#ifndef SW_RUN_PROGRESS_H
#define SW_RUN_PROGRESS_H

#include <shardwise/train.h>

#endif
